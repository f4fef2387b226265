"""A few Hugging Face models with small configurations and random weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2Model,
    LlamaConfig,
    LlamaModel,
    ViTConfig,
    ViTModel,
)

from longhand.factory import Call


def gpt2() -> Call:
    """GPT-2, 4 layers of 256."""
    config = GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=1024, n_positions=256)
    return Call(
        GPT2Model(config).eval(), (), {"input_ids": torch.randint(1024, (2, 128)), "use_cache": False}
    )


def bert() -> Call:
    """BERT, 4 layers of 256."""
    config = BertConfig(
        num_hidden_layers=4,
        hidden_size=256,
        num_attention_heads=4,
        intermediate_size=1024,
        vocab_size=1024,
        max_position_embeddings=256,
    )
    return Call(BertModel(config).eval(), (), {"input_ids": torch.randint(1024, (2, 128))})


def llama() -> Call:
    """Llama, 4 layers of 256 with grouped-query attention."""
    config = LlamaConfig(
        num_hidden_layers=4,
        hidden_size=256,
        num_attention_heads=8,
        num_key_value_heads=2,
        intermediate_size=704,
        vocab_size=1024,
        max_position_embeddings=256,
    )
    return Call(
        LlamaModel(config).eval(), (), {"input_ids": torch.randint(1024, (2, 128)), "use_cache": False}
    )


def vit() -> Call:
    """ViT, 4 layers of 256, images of 64 x 64."""
    config = ViTConfig(
        num_hidden_layers=4,
        hidden_size=256,
        num_attention_heads=4,
        intermediate_size=1024,
        image_size=64,
        patch_size=8,
    )
    return Call(ViTModel(config).eval(), (), {"pixel_values": torch.randn(4, 3, 64, 64)})


MODELS: dict[str, Callable[[], Call]] = {"gpt2": gpt2, "bert": bert, "llama": llama, "vit": vit}
