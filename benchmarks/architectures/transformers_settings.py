"""Architectures of transformers whose small configuration is written by hand: with what the rule would leave out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import nn

from tests.models.hugging_face import MODELS

Example = tuple[nn.Module, dict[str, Any]]
Factory = Callable[[], Example]
TRANSFORMER = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
}
TEXT = {**TRANSFORMER, "vocab_size": 97}
GROUPED = {**TEXT, "num_key_value_heads": 2, "use_cache": False}
ENCODER_DECODER = {
    "d_model": 48,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96,
    "vocab_size": 97,
    "use_cache": False,
}
_STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}


def tokens(length: int = 19) -> torch.Tensor:
    """Random token numbers, two sequences."""
    return torch.randint(3, 97, (2, length))


def text(config: str, model: str, **settings: Any) -> Factory:
    """A model of token numbers."""
    return lambda: (getattr(hf, model)(getattr(hf, config)(**settings)).eval(), {"input_ids": tokens()})


def image(config: str, model: str, size: int = 32, **settings: Any) -> Factory:
    """A model of images."""

    def make() -> Example:
        module = getattr(hf, model)(getattr(hf, config)(**settings)).eval()
        return module, {"pixel_values": torch.randn(2, 3, size, size)}

    return make


def _tokenized_sound(half: str, shape: tuple[int, ...]) -> Factory:
    """One half of VibeVoice's tokenizer, whose stages double the filters seven times."""

    def make() -> Example:
        config = getattr(hf, f"VibeVoiceAcousticTokenizer{half}Config")(num_filters=2, depths=[1] * 7)
        module = getattr(hf, f"VibeVoiceAcousticTokenizer{half}Model")(config).eval()
        return module, {"hidden_states": torch.randn(*shape)}

    return make


def _t5() -> Example:
    config = hf.T5Config(
        d_model=48, d_kv=12, d_ff=96, num_layers=2, num_heads=4, vocab_size=97, use_cache=False
    )
    inputs = {"input_ids": tokens(), "decoder_input_ids": tokens(7)}
    return hf.T5ForConditionalGeneration(config).eval(), inputs


def _clip() -> Example:
    text = {**TEXT, "max_position_embeddings": 32, "bos_token_id": 0, "eos_token_id": 2}
    vision = {**TRANSFORMER, "image_size": 32, "patch_size": 8}
    config = hf.CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)
    return hf.CLIPModel(config).eval(), {"input_ids": tokens(), "pixel_values": torch.randn(2, 3, 32, 32)}


def _whisper() -> Example:
    words = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    limits = {"num_mel_bins": 16, "max_source_positions": 30, "max_target_positions": 20}
    config = hf.WhisperConfig(**ENCODER_DECODER, **words, **limits)
    inputs = {"input_features": torch.randn(2, 16, 60), "decoder_input_ids": tokens(7)}
    return hf.WhisperModel(config).eval(), inputs


VIT = {**TRANSFORMER, "image_size": 32, "patch_size": 8}
_FIRST: dict[str, Factory] = {
    "distilbert": text(
        "DistilBertConfig", "DistilBertModel", dim=48, n_layers=2, n_heads=4, hidden_dim=96, vocab_size=97
    ),
    "roberta": text("RobertaConfig", "RobertaModel", max_position_embeddings=64, **TEXT),
    "electra": text("ElectraConfig", "ElectraModel", embedding_size=24, **TEXT),
    "albert": text("AlbertConfig", "AlbertModel", embedding_size=24, **TEXT),
    "deberta-v2": text(
        "DebertaV2Config", "DebertaV2Model", relative_attention=True, pos_att_type=["p2c", "c2p"], **TEXT
    ),
    "t5": _t5,
    "bart": text("BartConfig", "BartModel", max_position_embeddings=64, **ENCODER_DECODER),
    "opt": text(
        "OPTConfig",
        "OPTForCausalLM",
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=96,
        vocab_size=97,
        max_position_embeddings=64,
        word_embed_proj_dim=48,
        use_cache=False,
    ),
    "gpt_neox": text("GPTNeoXConfig", "GPTNeoXForCausalLM", use_cache=False, **TEXT),
    "gpt_neo": text(
        "GPTNeoConfig",
        "GPTNeoForCausalLM",
        hidden_size=48,
        num_layers=2,
        num_heads=4,
        vocab_size=97,
        attention_types=[[["global", "local"], 1]],
        window_size=8,
        max_position_embeddings=64,
        use_cache=False,
    ),
    "gpt2 with a cache": text(
        "GPT2Config", "GPT2LMHeadModel", n_layer=2, n_embd=48, n_head=4, vocab_size=97, n_positions=32
    ),
    "mistral": text("MistralConfig", "MistralForCausalLM", sliding_window=8, **GROUPED),
    "mixtral": text("MixtralConfig", "MixtralForCausalLM", num_local_experts=4, **GROUPED),
    "qwen2": text("Qwen2Config", "Qwen2ForCausalLM", **GROUPED),
    "qwen3": text("Qwen3Config", "Qwen3ForCausalLM", head_dim=12, **GROUPED),
    "gemma": text("GemmaConfig", "GemmaForCausalLM", head_dim=12, **GROUPED),
    "gemma2": text("Gemma2Config", "Gemma2ForCausalLM", head_dim=12, sliding_window=8, **GROUPED),
    "phi": text("PhiConfig", "PhiForCausalLM", use_cache=False, **TEXT),
    "falcon": text(
        "FalconConfig",
        "FalconForCausalLM",
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=97,
        use_cache=False,
    ),
    "bloom": text(
        "BloomConfig", "BloomForCausalLM", hidden_size=48, n_layer=2, n_head=4, vocab_size=97, use_cache=False
    ),
    "mamba": text(
        "MambaConfig",
        "MambaForCausalLM",
        hidden_size=32,
        num_hidden_layers=2,
        vocab_size=97,
        state_size=4,
        use_cache=False,
    ),
    "clip": _clip,
    "whisper": _whisper,
    "deit": image("DeiTConfig", "DeiTModel", **VIT),
    "dinov2": image("Dinov2Config", "Dinov2Model", **VIT),
    "swin": image(
        "SwinConfig",
        "SwinModel",
        image_size=32,
        patch_size=2,
        embed_dim=12,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
    ),
    "convnext": image("ConvNextConfig", "ConvNextModel", **_STAGES),
    "resnet": image("ResNetConfig", "ResNetModel", embedding_size=8, layer_type="basic", **_STAGES),
    "segformer": image(
        "SegformerConfig",
        "SegformerForSemanticSegmentation",
        size=64,
        depths=[1, 1, 1, 1],
        hidden_sizes=[8, 16, 24, 32],
        num_attention_heads=[1, 2, 2, 4],
        decoder_hidden_size=24,
    ),
}


_POSITIONS = {"max_position_embeddings": 64}


def _seq2seq(config: str, model: str, **settings: Any) -> Factory:
    def make() -> Example:
        module = getattr(hf, model)(getattr(hf, config)(**settings)).eval()
        return module, {"input_ids": tokens(), "decoder_input_ids": tokens(7)}

    return make


def _speech(config: str, model: str) -> Factory:
    def make() -> Example:
        settings = {
            **TRANSFORMER,
            "conv_dim": [16, 16],
            "conv_kernel": [10, 3],
            "conv_stride": [5, 2],
            "num_conv_pos_embeddings": 8,
            "num_conv_pos_embedding_groups": 4,
            "num_feat_extract_layers": 2,
            "vocab_size": 32,
        }
        module = getattr(hf, model)(getattr(hf, config)(**settings)).eval()
        return module, {"input_values": torch.randn(2, 800)}

    return make


def _spectrogram() -> Example:
    config = hf.ASTConfig(**TRANSFORMER, num_mel_bins=16, max_length=64, patch_size=8)
    return hf.ASTModel(config).eval(), {"input_values": torch.randn(2, 64, 16)}


def _siglip() -> Example:
    words = {**TEXT, **_POSITIONS, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}
    config = hf.SiglipConfig(text_config=words, vision_config=VIT)
    return hf.SiglipModel(config).eval(), {"input_ids": tokens(), "pixel_values": torch.randn(2, 3, 32, 32)}


_DENSE = {"use_cache": False, **TEXT}
_MORE: dict[str, Factory] = {
    "vibevoice_acoustic_tokenizer_encoder": _tokenized_sound("Encoder", (2, 1, 6400)),
    "vibevoice_acoustic_tokenizer_decoder": _tokenized_sound("Decoder", (2, 64, 3)),
    "xlm-roberta": text("XLMRobertaConfig", "XLMRobertaModel", **_POSITIONS, **TEXT),
    "camembert": text("CamembertConfig", "CamembertModel", **_POSITIONS, **TEXT),
    "ernie": text("ErnieConfig", "ErnieModel", **_POSITIONS, **TEXT),
    "layoutlm": text("LayoutLMConfig", "LayoutLMModel", **_POSITIONS, **TEXT),
    "rembert": text(
        "RemBertConfig", "RemBertModel", input_embedding_size=24, output_embedding_size=24, **TEXT
    ),
    "convbert": text("ConvBertConfig", "ConvBertModel", embedding_size=48, **_POSITIONS, **TEXT),
    "squeezebert": text("SqueezeBertConfig", "SqueezeBertModel", embedding_size=48, **_POSITIONS, **TEXT),
    "nystromformer": text(
        "NystromformerConfig",
        "NystromformerModel",
        segment_means_seq_len=19,
        num_landmarks=19,
        **_POSITIONS,
        **TEXT,
    ),
    "fnet": text(
        "FNetConfig", "FNetModel", **_POSITIONS, **{k: v for k, v in TEXT.items() if "heads" not in k}
    ),
    "modernbert": text(
        "ModernBertConfig",
        "ModernBertModel",
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
        **TEXT,
    ),
    "gptj": text(
        "GPTJConfig",
        "GPTJForCausalLM",
        n_embd=48,
        n_layer=2,
        n_head=4,
        rotary_dim=8,
        vocab_size=97,
        n_positions=64,
        use_cache=False,
    ),
    "codegen": text(
        "CodeGenConfig",
        "CodeGenForCausalLM",
        n_embd=48,
        n_layer=2,
        n_head=4,
        rotary_dim=8,
        vocab_size=97,
        n_positions=64,
        use_cache=False,
    ),
    "biogpt": text("BioGptConfig", "BioGptForCausalLM", **_POSITIONS, **_DENSE),
    "stablelm": text("StableLmConfig", "StableLmForCausalLM", **{**GROUPED, "num_attention_heads": 2}),
    "starcoder2": text("Starcoder2Config", "Starcoder2ForCausalLM", **GROUPED),
    "olmo": text("OlmoConfig", "OlmoForCausalLM", pad_token_id=0, **GROUPED),
    "olmo2": text("Olmo2Config", "Olmo2ForCausalLM", pad_token_id=0, **GROUPED),
    "cohere": text(
        "CohereConfig", "CohereForCausalLM", pad_token_id=0, bos_token_id=1, eos_token_id=2, **GROUPED
    ),
    "granite": text("GraniteConfig", "GraniteForCausalLM", pad_token_id=0, **GROUPED),
    "phi3": text("Phi3Config", "Phi3ForCausalLM", pad_token_id=0, **GROUPED),
    "gemma3": text("Gemma3TextConfig", "Gemma3ForCausalLM", head_dim=12, sliding_window=8, **GROUPED),
    "persimmon": text("PersimmonConfig", "PersimmonForCausalLM", **_DENSE),
    "glm": text("GlmConfig", "GlmForCausalLM", head_dim=12, pad_token_id=0, **GROUPED),
    "mt5": _seq2seq(
        "MT5Config",
        "MT5Model",
        d_model=48,
        d_kv=12,
        d_ff=96,
        num_layers=2,
        num_heads=4,
        vocab_size=97,
        use_cache=False,
    ),
    "mbart": _seq2seq("MBartConfig", "MBartModel", **_POSITIONS, **ENCODER_DECODER),
    "pegasus": _seq2seq("PegasusConfig", "PegasusModel", **_POSITIONS, **ENCODER_DECODER),
    "marian": _seq2seq(
        "MarianConfig",
        "MarianModel",
        pad_token_id=0,
        decoder_start_token_id=0,
        eos_token_id=1,
        decoder_vocab_size=97,
        **_POSITIONS,
        **ENCODER_DECODER,
    ),
    "beit": image("BeitConfig", "BeitModel", **VIT),
    "vit_msn": image("ViTMSNConfig", "ViTMSNModel", **VIT),
    "convnextv2": image(
        "ConvNextV2Config", "ConvNextV2Model", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1]
    ),
    "regnet": image(
        "RegNetConfig",
        "RegNetModel",
        embedding_size=8,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 2, 1],
        groups_width=4,
    ),
    "mobilenet_v2": image("MobileNetV2Config", "MobileNetV2Model", image_size=32, depth_multiplier=0.35),
    "poolformer": image(
        "PoolFormerConfig", "PoolFormerModel", size=64, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]
    ),
    "yolos": image("YolosConfig", "YolosModel", **{**VIT, "image_size": [32, 32]}, num_detection_tokens=4),
    "siglip": _siglip,
    "wav2vec2": _speech("Wav2Vec2Config", "Wav2Vec2Model"),
    "hubert": _speech("HubertConfig", "HubertModel"),
    "audio-spectrogram-transformer": _spectrogram,
    "mamba2": text(
        "Mamba2Config",
        "Mamba2ForCausalLM",
        hidden_size=32,
        num_hidden_layers=2,
        vocab_size=97,
        state_size=4,
        num_heads=8,
        head_dim=8,
        n_groups=1,
        chunk_size=8,
        expand=2,
        use_cache=False,
    ),
}
SETTINGS: dict[str, Factory] = {**MODELS, **_FIRST, **_MORE}
