"""CUDA's attention kernels on CPU tensors, by their definition, so that a CUDA unit for training runs without a GPU."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch

Tensors = tuple[torch.Tensor, ...]


def _weights(
    query: torch.Tensor,
    key: torch.Tensor,
    is_causal: bool,
    scale: float | None,
    bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """softmax(q k^T) and the logarithm of its denominators, in float32."""
    factor = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
    scores = query.float() @ key.float().transpose(-1, -2) * factor
    if is_causal:
        scores += torch.full(scores.shape[-2:], -math.inf).triu(1)
    if bias is not None:
        scores = scores + bias.float()
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
    """As _scaled_dot_product_flash_attention: its result is laid out as (batch, seq, head, dim).

    Heads of queries may share those of keys and values.
    """
    key, value = _for_each_head(query, key), _for_each_head(query, value)
    weights, logsumexp = _weights(query, key, is_causal, scale)
    mixed = _by_position(weights @ value.float(), query.dtype)
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
    n_heads = key.shape[1]
    key, value = _for_each_head(query, key), _for_each_head(query, value)
    weights, _ = _weights(query, key, is_causal, scale)
    d_query, *of_heads = _gradients(weights, d_mixed, (query, key, value), mixed, scale)[:3]
    of_groups = (one.float().unflatten(1, (n_heads, -1)).sum(2) for one in of_heads)
    return d_query, *(_by_position(one, query.dtype) for one in of_groups)


def _for_each_head(query: torch.Tensor, shared: torch.Tensor) -> torch.Tensor:
    """Keys or values once for each head of queries."""
    return shared.repeat_interleave(query.shape[1] // shared.shape[1], 1)


def _gradients(
    weights: torch.Tensor, d_mixed: torch.Tensor, operands: Tensors, mixed: torch.Tensor, scale: float | None
) -> Tensors:
    """Those of query, key, value, and of a bias."""
    query, key, value = operands
    factor = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
    d_wide = d_mixed.float()
    d_weights = d_wide @ value.float().transpose(-1, -2)
    d_bias = weights * (d_weights - (d_wide * mixed.float()).sum(-1, keepdim=True))
    d_scores = d_bias * factor
    gradients = (
        d_scores @ key.float(),
        d_scores.transpose(-1, -2) @ query.float(),
        weights.transpose(-1, -2) @ d_wide,
    )
    return *(_by_position(gradient, query.dtype) for gradient in gradients), d_bias.to(query.dtype)


def _by_position(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Laid out as (batch, seq, head, dim), as all of these kernels do."""
    return value.to(dtype).transpose(1, 2).contiguous().transpose(1, 2)


def _check_bias(bias: torch.Tensor | None) -> None:
    """Refuses what the kernels refuse, which nothing here would notice."""
    if bias is not None and bias.stride(-1) != 1:
        raise RuntimeError("(*bias): last dimension must be contiguous")


def efficient_forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: torch.Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> Tensors:
    """As _scaled_dot_product_efficient_attention."""
    _check_bias(attn_bias)
    weights, logsumexp = _weights(query, key, is_causal, scale, attn_bias)
    mixed = _by_position(weights @ value.float(), query.dtype)
    return mixed, logsumexp, torch.empty((), dtype=torch.int64), torch.empty((), dtype=torch.int64)


def efficient_backward(
    d_mixed: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: torch.Tensor | None,
    mixed: torch.Tensor,
    logsumexp: torch.Tensor,
    philox_seed: torch.Tensor,
    philox_offset: torch.Tensor,
    dropout_p: float,
    grad_input_mask: Sequence[bool],
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """As _scaled_dot_product_efficient_attention_backward: rows of the bias's gradient begin at multiples of 16."""
    _check_bias(attn_bias)
    weights, _ = _weights(query, key, is_causal, scale, attn_bias)
    *gradients, d_bias = _gradients(weights, d_mixed, (query, key, value), mixed, scale)
    if not grad_input_mask[3]:
        return *gradients, None
    n_keys = d_bias.shape[-1]
    return *gradients, torch.nn.functional.pad(d_bias, (0, -n_keys % 16))[..., :n_keys]


def cudnn_forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: torch.Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """As _scaled_dot_product_cudnn_attention."""
    return forward(query, key, value, dropout_p, is_causal, scale=scale)


def cudnn_backward(
    d_mixed: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mixed: torch.Tensor,
    logsumexp: torch.Tensor,
    philox_seed: Any,
    philox_offset: Any,
    attn_bias: torch.Tensor | None,
    cum_seq_q: Any,
    cum_seq_k: Any,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    *,
    scale: float | None = None,
) -> Tensors:
    """As _scaled_dot_product_cudnn_attention_backward."""
    weights, _ = _weights(query, key, is_causal, scale)
    return _gradients(weights, d_mixed, (query, key, value), mixed, scale)[:3]


@functools.cache
def register() -> torch.library.Library:
    """Makes them callable on CPU tensors, in this process."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("_scaled_dot_product_flash_attention", forward, "CPU")
    library.impl("_scaled_dot_product_flash_attention_backward", backward, "CPU")
    library.impl("_scaled_dot_product_efficient_attention", efficient_forward, "CPU")
    library.impl("_scaled_dot_product_efficient_attention_backward", efficient_backward, "CPU")
    library.impl("_scaled_dot_product_cudnn_attention", cudnn_forward, "CPU")
    library.impl("_scaled_dot_product_cudnn_attention_backward", cudnn_backward, "CPU")
    return library
