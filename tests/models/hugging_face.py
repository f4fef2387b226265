"""Real architectures of transformers: small configurations, random weights, no downloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import nn

Factory = Callable[[], tuple[nn.Module, dict[str, Any]]]


def _tokens(n_words: int) -> torch.Tensor:
    return torch.randint(0, n_words, (2, 19))


def gpt2() -> tuple[nn.Module, dict[str, Any]]:
    """A GPT-2 language model of two layers."""
    config = transformers.GPT2Config(
        n_layer=2, n_embd=48, n_head=4, vocab_size=97, n_positions=32, use_cache=False
    )
    return transformers.GPT2LMHeadModel(config).eval(), {"input_ids": _tokens(97)}


def bert() -> tuple[nn.Module, dict[str, Any]]:
    """A BERT encoder of two layers, with a padding mask."""
    config = transformers.BertConfig(
        num_hidden_layers=2, hidden_size=48, num_attention_heads=4, intermediate_size=96, vocab_size=97
    )
    mask = torch.ones(2, 19, dtype=torch.long)
    mask[1, 12:] = 0
    return transformers.BertModel(config).eval(), {"input_ids": _tokens(97), "attention_mask": mask}


def llama() -> tuple[nn.Module, dict[str, Any]]:
    """A Llama language model of two layers with grouped queries."""
    config = transformers.LlamaConfig(
        num_hidden_layers=2,
        hidden_size=48,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=96,
        vocab_size=97,
        use_cache=False,
    )
    return transformers.LlamaForCausalLM(config).eval(), {"input_ids": _tokens(97)}


def vit() -> tuple[nn.Module, dict[str, Any]]:
    """A vision transformer of two layers."""
    config = transformers.ViTConfig(
        num_hidden_layers=2,
        hidden_size=48,
        num_attention_heads=4,
        intermediate_size=96,
        image_size=32,
        patch_size=8,
    )
    return transformers.ViTModel(config).eval(), {"pixel_values": torch.randn(2, 3, 32, 32)}


MODELS: dict[str, Factory] = {"gpt2": gpt2, "bert": bert, "llama": llama, "vit": vit}
