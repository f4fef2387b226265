"""Derivatives that we write ourselves, where torch's trace would hide the math, depend on the device, or cost memory.

A rule is called where the forward pass has the op. It emits what the forward computes instead of it, and returns the
results together with a pullback: from the gradients of the results to those of the tensors among the op's arguments.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture.attention.kernels import groups_of, suits_efficient, suits_flash
from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter
from longhand.capture.functionalize.writes import bound
from longhand.capture.known.biases import ALIGNMENT
from longhand.capture.roles import Role
from longhand.options import Device, Target

aten = torch.ops.aten

# From the gradients of the results (None where there is none) to (argument, gradient) pairs.
Pullback = Callable[[Sequence[Proxy | None]], list[tuple[Proxy, Proxy | None]]]


@dataclasses.dataclass(frozen=True)
class Rewritten:
    """What a rule makes of a call.

    Attributes:
        results: What the forward computes, in the order of the op's results.
        pullback: The derivative.
    """

    results: tuple[Proxy, ...]
    pullback: Pullback


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a rule may look at besides the call.

    Attributes:
        machine: What the derivative is for.
        wanted: The tensors among the arguments, as nodes of the joint graph, that need a gradient.
    """

    machine: Target
    wanted: frozenset[fx.Node]


DerivativeRule = Callable[[Rewriter, dict[str, Any], torch.Tensor, Setting], Rewritten | None]
DERIVATIVE_RULES: dict[torch._ops.OpOverload, DerivativeRule] = {}
_OF_COMPLEX: set[torch._ops.OpOverload] = set()


def derivative_rule(
    *targets: torch._ops.OpOverload, takes_complex: bool = False
) -> Callable[[DerivativeRule], DerivativeRule]:
    """Registers the rule for ops.

    Args:
        targets: The ops.
        takes_complex: Whether its formula is one of complex numbers, too: most would lack a conjugate.
    """

    def register(function: DerivativeRule) -> DerivativeRule:
        for target in targets:
            DERIVATIVE_RULES[target] = function
        _OF_COMPLEX.update(targets if takes_complex else ())
        return function

    return register


def called(role: Role, made: Proxy) -> Proxy:
    """A value that a derivative just computed, with the word that it has in the formula."""
    made.node.meta["role"] = role
    return made


def rewritten(
    rewriter: Rewriter,
    op: torch._ops.OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    eager: Any,
    setting: Setting,
) -> Rewritten | None:
    """What the rule for an op makes of a call; None where there is no rule for it."""
    rule = DERIVATIVE_RULES.get(op)
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Proxy)]
    if op not in _OF_COMPLEX and any(tensor.fake.is_complex() for tensor in tensors):
        return None
    return None if rule is None else rule(rewriter, bound(op, args, kwargs), eager, setting)


@derivative_rule(aten.dropout.default, aten.native_dropout.default)
def _dropout(
    rewriter: Rewriter, given: dict[str, Any], eager: torch.Tensor, setting: Setting
) -> Rewritten | None:
    """The mask is drawn by ATen (as eager draws it on the CPU), once, and kept for the backward as bools."""
    x, p = given["input"], float(given["p"])
    if p >= 1.0 or p <= 0.0 or isinstance(eager, list | tuple):
        return None
    drawn = rewriter.call(aten.bernoulli.p, (x, 1.0 - p), {})
    mask = rewriter.call(aten.ne.Scalar, (drawn, 0), {})

    def masked(value: Proxy) -> Proxy:
        scaled = rewriter.call(aten.mul.Tensor, (value, 1.0 / (1.0 - p)), {})
        kept: Proxy = rewriter.call(aten.where.ScalarOther, (mask, scaled, 0.0), {})
        return kept

    return Rewritten((masked(x),), lambda grads: [(x, None if grads[0] is None else masked(grads[0]))])


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
    if machine.device is not Device.CUDA:
        return None
    query, key, value = given["query"], given["key"], given["value"]
    fakes = (query.fake, key.fake, value.fake)
    mask, scale, causal, p = given["attn_mask"], given["scale"], given["is_causal"], given["dropout_p"]
    is_grouped = given["enable_gqa"] and groups_of(query.fake, key.fake) != 1
    if mask is not None:
        if causal or is_grouped or not suits_efficient(*fakes, mask.fake, machine):
            return None
        is_wanted = mask.node in setting.wanted
        return _efficient_attention(rewriter, (query, key, value), mask, p, scale, is_mask_wanted=is_wanted)
    if not suits_flash(*fakes, causal, machine, is_grouped):
        if is_grouped or not suits_efficient(*fakes, None, machine):
            return None
        return _efficient_attention(rewriter, (query, key, value), None, p, scale, causal)
    if _suits_cudnn(query, key, machine) and p == 0 and not is_grouped:
        return _cudnn_attention(rewriter, (query, key, value), causal, scale)
    return _flash_attention(rewriter, (query, key, value), p, causal, scale)


_CUDNN_MOST = 65535  # images, or heads
# So few blocks of 128 queries leave most of a GPU without work, unless the keys are divided, too: the flash kernel does
# (us on an H200, bf16, forward and backward: 6 heads, 128 queries, 1500 keys 20.9 + 14.1 with cuDNN, 11.9 + 16.7 with
# flash; with 1500 queries 20.8 + 48.3 and 28.4 + 71.7; 8 heads, 1 query, 77 keys 4.4 + 11.2 and 6.4 + 15.2).
_FEW_BLOCKS, _MANY_KEYS = 32, 1024


def _are_few_queries(shape: Sequence[Any], n_keys: Any) -> bool:
    """Whether the flash kernel is the faster one: a decoder that looks at a long recording, say."""
    n_images, n_heads, n_queries, _ = shape
    if not all(isinstance(size, int) for size in (n_images, n_heads, n_queries, n_keys)):
        return False
    is_long = n_keys >= _MANY_KEYS and n_keys >= 8 * n_queries
    return is_long and n_images * n_heads * math.ceil(n_queries / 128) <= _FEW_BLOCKS


def _suits_cudnn(query: Proxy, key: Proxy, machine: Target) -> bool:
    """Where eager takes cuDNN's kernel, half again as fast: Hopper, heads of up to 128 channels, more than one key.

    The unit asks for the version of cuDNN (templates/runtime/attention.py.jinja): nothing here runs on the GPU.
    """
    if _are_few_queries(query.fake.shape, key.fake.shape[2]):
        return False
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
        gradients = rewriter.call(
            aten._scaled_dot_product_cudnn_attention_backward.default,
            (grads[0], *operands, *kept),
            {"scale": scale},
        )
        return list(zip(operands, gradients, strict=True))

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
        gradients = rewriter.call(
            aten._scaled_dot_product_flash_attention_backward.default,
            (grads[0], *operands, *kept),
            {"scale": scale},
        )
        return list(zip(operands, gradients, strict=True))

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
        gradients = rewriter.call(
            aten._scaled_dot_product_efficient_attention_backward.default,
            (grads[0], *operands, bias, out, *kept, p, wanted, causal),
            {"scale": scale},
        )
        pairs = list(zip(operands, gradients[:3], strict=True))
        if is_mask_wanted and mask is not None:
            pairs.append((mask, _summed_to(rewriter, gradients[3], mask.fake.shape)))
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
