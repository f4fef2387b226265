"""Hugging Face architectures, small and with random weights: those of benchmarks.architectures and more."""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf

from benchmarks.architectures import (
    ARCHITECTURES,
    ENCODER_DECODER,
    GROUPED,
    TEXT,
    TRANSFORMER,
    VIT,
    Example,
    Factory,
    image,
    text,
    tokens,
)
from tests.models.hugging_face import MODELS

__all__ = ["SMALL_MODELS"]

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
    "xlm_roberta": text("XLMRobertaConfig", "XLMRobertaModel", **_POSITIONS, **TEXT),
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
    "audio spectrogram": _spectrogram,
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
SMALL_MODELS: dict[str, Factory] = {**MODELS, **ARCHITECTURES, **_MORE}
