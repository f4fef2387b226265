"""One model of each family, as wide as people train them and with few enough layers to be compiled in a minute.

Transformers' own models where they have one, written out below (`written_out`) where they do not. No dropout: a step
must have one right answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import nn

from benchmarks.models.written_out import (
    CachedDecoder,
    DenseNet,
    DiffusionUNet,
    DiT,
    GraphConvolutions,
    GRUByHand,
    Recommender,
)

__all__ = ["FAMILIES", "Family"]

_VOCABULARY = 8192
_DEVICE_INPUTS = dict[str, torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Family:
    """A model and how to call it.

    Attributes:
        make: The model, in float32 on the CPU.
        inputs: Its keyword arguments for a batch, integers and float32 on the CPU.
        small: The batch where the host is what one waits for.
        large: The batch that fills the GPU.
        trains: Whether a training step makes sense.
    """

    make: Callable[[], nn.Module]
    inputs: Callable[[int], _DEVICE_INPUTS]
    small: int = 1
    large: int = 32
    trains: bool = True


def _tokens(seq: int, name: str = "input_ids") -> Callable[[int], _DEVICE_INPUTS]:
    return lambda batch: {name: torch.randint(_VOCABULARY, (batch, seq))}


def _images(size: int) -> Callable[[int], _DEVICE_INPUTS]:
    return lambda batch: {"pixel_values": torch.randn(batch, 3, size, size)}


def _llama() -> nn.Module:
    config = hf.LlamaConfig(
        vocab_size=_VOCABULARY,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=4,
        max_position_embeddings=4096,
        use_cache=False,
    )
    return hf.LlamaModel(config)


def _gpt2() -> nn.Module:
    config = hf.GPT2Config(
        vocab_size=_VOCABULARY,
        n_positions=2048,
        use_cache=False,
        attn_pdrop=0.0,
        embd_pdrop=0.0,
        resid_pdrop=0.0,
    )
    return hf.GPT2Model(config)


def _bert() -> nn.Module:
    config = hf.BertConfig(
        vocab_size=_VOCABULARY,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=2048,
    )
    return hf.BertModel(config)


def _t5() -> nn.Module:
    config = hf.T5Config(vocab_size=_VOCABULARY, d_model=512, num_layers=6, dropout_rate=0.0, use_cache=False)
    return hf.T5Model(config)


def _t5_inputs(batch: int) -> _DEVICE_INPUTS:
    return {
        "input_ids": torch.randint(_VOCABULARY, (batch, 512)),
        "decoder_input_ids": torch.randint(_VOCABULARY, (batch, 128)),
    }


def _whisper() -> nn.Module:
    config = hf.WhisperConfig(
        vocab_size=_VOCABULARY,
        d_model=384,
        encoder_layers=4,
        decoder_layers=4,
        encoder_attention_heads=6,
        decoder_attention_heads=6,
        encoder_ffn_dim=1536,
        decoder_ffn_dim=1536,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        use_cache=False,
        dropout=0.0,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
    )
    return hf.WhisperModel(config)


def _whisper_inputs(batch: int) -> _DEVICE_INPUTS:
    return {
        "input_features": torch.randn(batch, 80, 3000),
        "decoder_input_ids": torch.randint(_VOCABULARY, (batch, 128)),
    }


def _vit() -> nn.Module:
    return hf.ViTModel(hf.ViTConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))


def _swin() -> nn.Module:
    return hf.SwinModel(hf.SwinConfig(depths=[2, 2, 2, 2], drop_path_rate=0.0))


def _convnext() -> nn.Module:
    return hf.ConvNextModel(hf.ConvNextConfig(depths=[2, 2, 4, 2], drop_path_rate=0.0))


def _efficientnet() -> nn.Module:
    config = hf.EfficientNetConfig(
        image_size=224,
        width_coefficient=1.0,
        depth_coefficient=1.0,
        hidden_dim=1280,
        drop_connect_rate=0.0,
        dropout_rate=0.0,
    )
    return hf.EfficientNetModel(config)


FAMILIES: dict[str, Family] = {
    "llama S512": Family(_llama, _tokens(512), 1, 16),
    "llama S2048": Family(_llama, _tokens(2048), 1, 4),
    "llama decode": Family(lambda: CachedDecoder(), lambda batch: CachedDecoder.inputs(batch), 1, 32, False),
    "gpt2 S512": Family(_gpt2, _tokens(512), 1, 16),
    "bert S128": Family(_bert, _tokens(128), 1, 64),
    "t5": Family(_t5, _t5_inputs, 1, 16),
    "whisper": Family(_whisper, _whisper_inputs, 1, 16),
    "vit": Family(_vit, _images(224), 1, 64),
    "swin": Family(_swin, _images(224), 1, 64),
    "convnext": Family(_convnext, _images(224), 1, 64),
    "resnet50": Family(lambda: hf.ResNetModel(hf.ResNetConfig()), _images(224), 1, 64),
    "efficientnet": Family(_efficientnet, _images(224), 1, 64),
    "mobilenet": Family(lambda: hf.MobileNetV2Model(hf.MobileNetV2Config()), _images(224), 1, 64),
    "densenet": Family(lambda: DenseNet(), _images(224), 1, 32),
    "unet": Family(lambda: DiffusionUNet(), lambda batch: DiffusionUNet.inputs(batch), 1, 16),
    "dit": Family(lambda: DiT(), lambda batch: DiT.inputs(batch), 1, 32),
    "recommender": Family(lambda: Recommender(), lambda batch: Recommender.inputs(batch), 64, 8192),
    "gru by hand": Family(lambda: GRUByHand(), lambda batch: GRUByHand.inputs(batch), 16, 512),
    "gcn": Family(lambda: GraphConvolutions(), lambda batch: GraphConvolutions.inputs(batch), 1, 16),
}


def on_device(inputs: _DEVICE_INPUTS, device: str, dtype: torch.dtype) -> dict[str, Any]:
    """The inputs where the model is, floats in its dtype."""
    return {
        name: value.to(device, dtype) if value.is_floating_point() else value.to(device)
        for name, value in inputs.items()
    }
