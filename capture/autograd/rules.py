"""Derivatives that we write ourselves, where torch's trace would hide the math, depend on the device, or cost memory.

A rule is called where the forward pass has the op. It emits what the forward computes instead of it, and returns the
results together with a pullback: from the gradients of the results to those of the tensors among the op's arguments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter
from longhand.capture.functionalize.writes import bound
from longhand.options import Target

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


def called(role: str, made: Proxy) -> Proxy:
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
        found: Proxy = rewriter.call(aten.where.ScalarOther, (mask, scaled, 0.0), {})
        return found

    return Rewritten((masked(x),), lambda grads: [(x, None if grads[0] is None else masked(grads[0]))])
