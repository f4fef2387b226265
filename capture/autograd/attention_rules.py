"""Attention's derivative on CUDA: the kernels that eager takes, with what their backward reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from longhand.capture.autograd.rules import Rewritten, Setting, derivative_rule
from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter
from longhand.capture.known.biases import ALIGNMENT
from longhand.options import Device, Target

aten = torch.ops.aten


@derivative_rule(aten.scaled_dot_product_attention.default)
def _attention(
    rewriter: Rewriter, given: dict[str, Any], eager: torch.Tensor, setting: Setting
) -> Rewritten | None:
    """On CUDA the memory-efficient kernel with a mask (cuDNN's, which eager may take, can give NaN gradients:
    pytorch#196678, and none of it); without one cuDNN's or the flash kernel where these take it, as they do no float32.
    What none of them takes, and all on the CPU, is as traced: the forward keeps the weights, and computes attention
    again for that.
    """
    machine = setting.machine
    if machine.device is not Device.CUDA or given["enable_gqa"]:
        return None
    query, key, value = given["query"], given["key"], given["value"]
    mask, scale, causal, p = given["attn_mask"], given["scale"], given["is_causal"], given["dropout_p"]
    if mask is not None:
        if causal or not _suits_efficient(query, key, value, mask, machine):
            return None
        is_wanted = mask.node in setting.wanted
        return _efficient_attention(rewriter, (query, key, value), mask, p, scale, is_mask_wanted=is_wanted)
    if not _suits_flash(query, key, value, causal, machine):
        if not _suits_efficient(query, key, value, None, machine):
            return None
        return _efficient_attention(rewriter, (query, key, value), None, p, scale, causal)
    if _suits_cudnn(query, key, machine) and p == 0:
        return _cudnn_attention(rewriter, (query, key, value), causal, scale)
    return _flash_attention(rewriter, (query, key, value), p, causal, scale)


def _suits_flash(query: Proxy, key: Proxy, value: Proxy, causal: bool, machine: Target) -> bool:
    """What the flash kernel takes; where it would compute something else or raise, eager takes another one.

    (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp.) Its causal mask ends with the last key, eager's begins with
    the first one: they are one mask where there are as many queries as keys.
    """
    if query.fake.ndim != 4 or query.fake.dtype not in (torch.float16, torch.bfloat16):
        return False
    if not _is_ampere_or_later(machine):
        return False
    (*several, n_queries, channels), (*of_keys, n_keys, key_channels) = query.fake.shape, key.fake.shape
    if of_keys != several or key_channels != channels or value.fake.shape != key.fake.shape:
        return False
    if channels % 8 or channels > 256 or n_queries == 0 or n_keys == 0:
        return False
    return not causal or n_queries == n_keys


def _is_ampere_or_later(machine: Target) -> bool:
    return int("".join(filter(str.isdigit, machine.arch or ""))) >= 80


def _suits_efficient(query: Proxy, key: Proxy, value: Proxy, mask: Proxy | None, machine: Target) -> bool:
    """What the memory-efficient kernel takes, with a mask of which `_bias` makes its bias.

    Its causal mask begins with the first key, as eager's does.
    """
    fakes = [query.fake, key.fake, value.fake]
    if query.fake.dtype not in (torch.float32, torch.float16, torch.bfloat16) or not _is_ampere_or_later(
        machine
    ):
        return False
    if any(fake.ndim != 4 or fake.dtype is not query.fake.dtype for fake in fakes):
        return False
    (*several, n_queries, channels), (*of_keys, n_keys, key_channels) = query.fake.shape, key.fake.shape
    if of_keys != several or key_channels != channels or value.fake.shape[:3] != key.fake.shape[:3]:
        return False
    whole = 4 if query.fake.dtype is torch.float32 else 8  # 16 bytes: what one load takes
    if channels % whole or value.fake.shape[3] % whole or n_queries == 0 or n_keys == 0:
        return False
    if mask is None:
        return True
    is_typed = mask.fake.dtype in (query.fake.dtype, torch.bool)
    return is_typed and mask.fake.shape[-1:] == (n_keys,) and mask.fake.stride(-1) == 1


_CUDNN_MOST = 65535  # images, or heads


def _suits_cudnn(query: Proxy, key: Proxy, machine: Target) -> bool:
    """Where eager takes cuDNN's kernel, half again as fast: Hopper, heads of up to 128 channels, more than one key.

    The unit asks for the version of cuDNN (templates/runtime/attention.py.jinja): nothing here runs on the GPU.
    """
    is_small = not any(isinstance(n, int) and n > _CUDNN_MOST for n in query.fake.shape[:2])
    return machine.arch == "sm_90" and query.fake.shape[3] <= 128 and key.fake.shape[2] != 1 and is_small


def _cudnn_attention(
    rewriter: Rewriter, operands: tuple[Proxy, ...], causal: bool, scale: float | None
) -> Rewritten:
    made = rewriter.call(
        aten._scaled_dot_product_cudnn_attention.default,
        (*operands, None, True, 0.0, causal, False),
        {"scale": scale},
    )
    out, logsumexp, cum_q, cum_k, max_q, max_k, seed, offset, _ = made

    def backward(grads: Sequence[Proxy | None]) -> list[tuple[Proxy, Proxy | None]]:
        kept = (out, logsumexp, seed, offset, None, cum_q, cum_k, max_q, max_k, 0.0, causal)
        found = rewriter.call(
            aten._scaled_dot_product_cudnn_attention_backward.default,
            (grads[0], *operands, *kept),
            {"scale": scale},
        )
        return list(zip(operands, found, strict=True))

    return Rewritten((out,), backward)


def _flash_attention(
    rewriter: Rewriter, operands: tuple[Proxy, ...], p: float, causal: bool, scale: float | None
) -> Rewritten:
    made = rewriter.call(
        aten._scaled_dot_product_flash_attention.default,
        (*operands, p, causal, False),
        {"scale": scale},
    )
    out, logsumexp, cum_q, cum_k, max_q, max_k, seed, offset, _ = made

    def backward(grads: Sequence[Proxy | None]) -> list[tuple[Proxy, Proxy | None]]:
        kept = (out, logsumexp, cum_q, cum_k, max_q, max_k, p, causal, seed, offset)
        found = rewriter.call(
            aten._scaled_dot_product_flash_attention_backward.default,
            (grads[0], *operands, *kept),
            {"scale": scale},
        )
        return list(zip(operands, found, strict=True))

    return Rewritten((out,), backward)


def _efficient_attention(
    rewriter: Rewriter,
    operands: tuple[Proxy, ...],
    mask: Proxy | None,
    p: float,
    scale: float | None,
    causal: bool = False,
    is_mask_wanted: bool = False,
) -> Rewritten:
    query, key, _ = operands
    sizes = [*query.fake.shape[:3], key.fake.shape[2]]
    # Another view of the same bias: the kernel broadcasts nothing by itself.
    bias = None
    if mask is not None:
        bias = rewriter.call(aten.expand.default, (_bias(rewriter, mask, query.fake.dtype), sizes), {})
    out, *kept = rewriter.call(
        aten._scaled_dot_product_efficient_attention.default,
        (*operands, bias, True, p, causal),
        {"scale": scale},
    )

    def backward(grads: Sequence[Proxy | None]) -> list[tuple[Proxy, Proxy | None]]:
        wanted = [True, True, True, is_mask_wanted]
        found = rewriter.call(
            aten._scaled_dot_product_efficient_attention_backward.default,
            (grads[0], *operands, bias, out, *kept, p, wanted, causal),
            {"scale": scale},
        )
        pairs = list(zip(operands, found[:3], strict=True))
        if is_mask_wanted and mask is not None:
            pairs.append((mask, _summed_to(rewriter, found[3], mask.fake.shape)))
        return pairs

    return Rewritten((out,), backward)


def _bias(rewriter: Rewriter, mask: Proxy, dtype: torch.dtype) -> Proxy:
    """What the kernel reads of a mask, as eager makes it in each call: numbers, in rows that begin well.

    `known/biases` did that before, once for all layers, where several calls read a mask, or the graph makes it.
    """
    bias, n_keys = mask, mask.fake.shape[-1]
    if mask.fake.dtype is torch.bool:
        weights = rewriter.call(aten.where.Scalar, (mask, 0.0, -math.inf), {})
        bias = rewriter.call(aten._to_copy.default, (weights,), {"dtype": dtype})
    if not any(step % ALIGNMENT for step in bias.fake.stride()[:-1]):
        return bias
    padded = rewriter.call(aten.constant_pad_nd.default, (bias, [0, -n_keys % ALIGNMENT], 0.0), {})
    return rewriter.call(aten.slice.Tensor, (padded, -1, 0, n_keys), {})


def _summed_to(rewriter: Rewriter, gradient: Proxy, shape: Sequence[Any]) -> Proxy:
    """The gradient of a tensor that was expanded, from that of what it became."""
    more = gradient.fake.ndim - len(shape)
    repeated = [dim for dim, size in enumerate(shape, more) if size == 1 and gradient.fake.shape[dim] != 1]
    dims = [*range(more), *repeated]
    if not dims:
        return gradient
    summed = rewriter.call(aten.sum.dim_IntList, (gradient, dims, True), {})
    return rewriter.call(aten.view.default, (summed, list(shape)), {}) if more else summed
