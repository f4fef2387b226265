"""Which fused kernel of attention takes a call; PyTorch computes the others with products and a softmax.

(aten/src/ATen/native/transformers/sdp_utils_cpp.cpp and cuda/sdp_utils.cpp.)
"""

from __future__ import annotations

from typing import TypeAlias

import torch

from longhand.capture.known.call import size_of
from longhand.capture.known.facts import Size
from longhand.options import Device, Target

# The flash kernels hold a whole head's channels: of more, no fused kernel is faster than products.
WIDEST_HEAD = 256
_HALVES = (torch.float16, torch.bfloat16)
# Queries, keys and values.
Operands: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def takes_written(
    operands: Operands, mask: torch.Tensor | None, is_mask_trained: bool, machine: Target
) -> bool:
    """Whether a fused kernel takes what was written as products and a softmax, forward and backward.

    Args:
        operands: Queries, keys, values.
        mask: The bias, if there is one.
        is_mask_trained: It needs a gradient, which the CPU's kernel has not.
        machine: What the call is for.
    """
    query, _, value = operands
    widths = (_sizes(query)[-1], _sizes(value)[-1])
    if not all(isinstance(width, int) and width <= WIDEST_HEAD for width in widths):
        return False
    if machine.device is Device.CPU:
        return suits_cpu(*operands) and not is_mask_trained
    return suits_efficient(*operands, None, machine) and (
        mask is None or mask.dtype in (query.dtype, torch.bool)
    )


def suits_cpu(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """What the CPU's flash kernel takes, whose mask has no gradient."""
    fakes = [query, key, value]
    if any(fake.dim() != 4 or fake.dtype is not query.dtype for fake in fakes):
        return False
    if query.dtype not in (torch.float32, torch.float64, *_HALVES):
        return False
    of_query, of_key, of_value = map(_sizes, fakes)
    if 0 in (*of_query, *of_key):
        return False
    return of_query[:2] == of_key[:2] and of_key == of_value and of_query[3] == of_key[3]


def suits_flash(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    causal: bool,
    machine: Target,
    is_grouped: bool = False,
) -> bool:
    """What the flash kernel takes; where it would compute something else or raise, eager takes another one.

    Its causal mask ends with the last key, eager's begins with the first one: they are one mask where there are as many
    queries as keys. Queries of several heads may share one of the keys.
    """
    if query.dim() != 4 or query.dtype not in _HALVES or not _is_ampere_or_later(machine):
        return False
    (batch, heads, n_queries, channels), (of_keys, key_heads, n_keys, key_channels) = map(
        _sizes, (query, key)
    )
    if of_keys != batch or key_channels != channels or _sizes(value) != _sizes(key):
        return False
    if key_heads != heads and not (is_grouped and groups_of(query, key)):
        return False
    if not isinstance(channels, int) or channels % 8 or channels > WIDEST_HEAD or 0 in (n_queries, n_keys):
        return False
    return not causal or n_queries == n_keys


def groups_of(query: torch.Tensor, key: torch.Tensor) -> int | None:
    """How many heads of queries share one of the keys; None where that is not known, or not the same for all."""
    heads, of_keys = _sizes(query)[1], _sizes(key)[1]
    if not isinstance(heads, int) or not isinstance(of_keys, int) or of_keys == 0 or heads % of_keys:
        return None
    return heads // of_keys


def suits_efficient(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, machine: Target
) -> bool:
    """What the memory-efficient kernel takes, with a mask of which the derivative's rule makes its bias.

    Its causal mask begins with the first key, as eager's does.
    """
    fakes = [query, key, value]
    if query.dtype not in (torch.float32, *_HALVES) or not _is_ampere_or_later(machine):
        return False
    if any(fake.dim() != 4 or fake.dtype is not query.dtype for fake in fakes):
        return False
    (*several, n_queries, channels), (*of_keys, n_keys, key_channels), of_value = map(_sizes, fakes)
    if of_keys != several or key_channels != channels or of_value[:3] != _sizes(key)[:3]:
        return False
    whole = 4 if query.dtype is torch.float32 else 8  # 16 bytes: what one load takes
    if any(not isinstance(width, int) or width % whole for width in (channels, of_value[3])):
        return False
    if 0 in (n_queries, n_keys):
        return False
    if mask is None:
        return True
    is_typed = mask.dtype in (query.dtype, torch.bool)
    return is_typed and _sizes(mask)[-1:] == (n_keys,) and bool(mask.stride(-1) == 1)


def _is_ampere_or_later(machine: Target) -> bool:
    if machine.device is not Device.CUDA:
        return False
    return int("".join(filter(str.isdigit, machine.arch or ""))) >= 80


def _sizes(fake: torch.Tensor) -> tuple[Size, ...]:
    return tuple(size for size in map(size_of, fake.shape) if size is not None)
