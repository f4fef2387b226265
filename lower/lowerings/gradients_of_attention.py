"""How the gradients of attention lie in memory: what is certain of them, kernel by kernel.

Two kernels make them anew as (batch, position, head, dim) and return that turned to (batch, head, position, dim),
however their arguments lie: ATen's for the CPU, and the memory-efficient one for GPUs
(``at::empty(query.sizes())`` of the turned query, in transformers/cuda/attention_backward.cu). Those of flash attention
and of cuDNN lie as arguments do, or are parts of padded tensors: of these nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from longhand.lower.ir import Size
from longhand.lower.sizes import contiguous_strides

_OF_QUERY_KEY_AND_VALUE = range(3)
_MADE_BY_POSITION = frozenset(
    {
        "aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
        "aten._scaled_dot_product_efficient_attention_backward.default",
    }
)


def lies_by_position(target: Any, place: int | None, value: object) -> bool:
    """Whether a call's result is certain to lie as (batch, position, head, dim).

    Args:
        target: What is called.
        place: Which of its results.
        value: That result, as PyTorch's own description of the kernel has it, which must say the same.
    """
    if str(target) not in _MADE_BY_POSITION or place not in _OF_QUERY_KEY_AND_VALUE:
        return False
    return isinstance(value, torch.Tensor) and value.dim() == 4 and value.transpose(1, 2).is_contiguous()


def strides_by_position(shape: Sequence[Size]) -> tuple[Size, ...]:
    """The strides of (batch, head, position, dim) that lies so."""
    batch, heads, positions, dim = shape
    of_batch, of_position, of_head, of_dim = contiguous_strides((batch, positions, heads, dim))
    return of_batch, of_head, of_position, of_dim
