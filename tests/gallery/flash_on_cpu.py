"""CUDA's flash attention on CPU tensors, by its definition, so that a CUDA unit for training runs without a GPU."""

from __future__ import annotations

import math
from typing import Any

import torch

Tensors = tuple[torch.Tensor, ...]


def _weights(
    query: torch.Tensor, key: torch.Tensor, is_causal: bool, scale: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """softmax(q k^T) and the logarithm of its denominators, in float32."""
    factor = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
    scores = query.float() @ key.float().transpose(-1, -2) * factor
    if is_causal:
        scores += torch.full(scores.shape[-2:], -math.inf).triu(1)
    return scores.softmax(-1), scores.logsumexp(-1)


def forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """As _scaled_dot_product_flash_attention: its result is laid out as (batch, seq, head, dim)."""
    weights, logsumexp = _weights(query, key, is_causal, scale)
    mixed = (weights @ value.float()).to(query.dtype).transpose(1, 2).contiguous().transpose(1, 2)
    empty = torch.empty(0, dtype=torch.int64)
    seq = (query.shape[2], key.shape[2])
    return mixed, logsumexp, None, None, *seq, empty, empty.clone(), query.new_empty(0)


def backward(
    d_mixed: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mixed: torch.Tensor,
    logsumexp: torch.Tensor,
    cum_seq_q: Any,
    cum_seq_k: Any,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Any,
    philox_offset: Any,
    *,
    scale: float | None = None,
) -> Tensors:
    """As _scaled_dot_product_flash_attention_backward."""
    factor = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
    weights, _ = _weights(query, key, is_causal, scale)
    d_wide = d_mixed.float()
    d_weights = d_wide @ value.float().transpose(-1, -2)
    d_scores = weights * (d_weights - (d_wide * mixed.float()).sum(-1, keepdim=True)) * factor
    found = (
        d_scores @ key.float(),
        d_scores.transpose(-1, -2) @ query.float(),
        weights.transpose(-1, -2) @ d_wide,
    )
    return tuple(gradient.to(query.dtype).transpose(1, 2).contiguous().transpose(1, 2) for gradient in found)


def register() -> torch.library.Library:
    """Makes both callable on CPU tensors for as long as the result lives."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("_scaled_dot_product_flash_attention", forward, "CPU")
    library.impl("_scaled_dot_product_flash_attention_backward", backward, "CPU")
    return library
