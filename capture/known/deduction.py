"""From what is known of an ATen call's arguments to what is known of its result.

A rule is given the call and yields a fact, or None: nothing is known. Calls of elementwise ops on plain numbers are
simply computed, on tensors of one element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private
from longhand.capture.known import number_rules, view_rules  # noqa: F401  (they fill the table)
from longhand.capture.known.call import RULES, KnownCall, aligned, moved, number_of, two_numbers
from longhand.capture.known.facts import Affine, AffineValue, Fact, Piecewise, SameNumber, Size
from longhand.capture.known.written import written_nodes

aten = torch.ops.aten


def facts_of(graph: fx.Graph) -> dict[fx.Node, Fact]:
    """What is known of each node of a graph; nothing of what a call writes into: it holds something else later."""
    facts: dict[fx.Node, Fact] = {}
    written = written_nodes(graph)
    for node in graph.nodes:
        fact = fact_of(node, facts) if node not in written else None
        if fact is not None:
            facts[node] = fact
    return facts


def fact_of(node: fx.Node, facts: dict[fx.Node, Fact]) -> Fact | None:
    """What is known of a call's result; `facts` holds what is known of the nodes before it."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or node.op != "call_function" or value.is_complex():
        return None
    rule = RULES.get(node.target)
    call = KnownCall(node, facts)
    fact = rule(call) if rule is not None else None
    return _narrowed(fact if fact is not None else _computed(call), call.shape)


def _narrowed(fact: Fact | None, shape: Sequence[Size]) -> Fact | None:
    """The fact without steps along dimensions of size 1, which broadcasting would walk along."""

    def narrow(function: Affine) -> Affine:
        steps = zip(function.steps, shape, strict=True)
        return Affine(function.offset, tuple(0 if size == 1 else step for step, size in steps))

    fact = moved(fact, narrow)
    if isinstance(fact, AffineValue) and not any(fact.value.steps):
        return number_of(fact.value.offset)
    return fact


def _computed(call: KnownCall) -> Fact | None:
    """An elementwise op on numbers: computed on tensors of one element, for each side of a choice."""
    target: Any = call.node.target
    is_elementwise = isinstance(target, torch._ops.OpOverload) and (
        torch.Tag.pointwise in target.tags or target is aten._to_copy.default
    )
    if not is_elementwise or torch.Tag.nondeterministic_seeded in target.tags:
        return None
    nodes = [
        leaf for leaf in pytree.tree_leaves((call.node.args, call.node.kwargs)) if isinstance(leaf, fx.Node)
    ]
    facts = [call.facts.get(node) for node in nodes]
    if not nodes or not all(isinstance(fact, SameNumber | Piecewise) for fact in facts):
        return None
    choices = [aligned(fact, call) for fact in facts if isinstance(fact, Piecewise)]
    kinds = {fact.conditions for fact in choices if isinstance(fact, Piecewise)}
    if len(kinds) > 1:
        return None
    outside = _value(call, lambda fact: fact.outside if isinstance(fact, Piecewise) else fact.number)  # type: ignore[union-attr]
    inside = _value(call, lambda fact: fact.inside if isinstance(fact, Piecewise) else fact.number)  # type: ignore[union-attr]
    if inside is None or outside is None:
        return None
    first = choices[0] if choices else None
    return two_numbers(first, inside, outside) if isinstance(first, Piecewise) else SameNumber(inside)


def _value(call: KnownCall, side: Callable[[Fact], Any]) -> Any:
    def number(leaf: Any) -> Any:
        if not isinstance(leaf, fx.Node):
            return leaf
        return torch.tensor(side(call.facts[leaf]), dtype=leaf.meta["val"].dtype)

    args, kwargs = fx.node.map_aggregate((call.node.args, dict(call.node.kwargs)), number)
    kwargs = {key: value for key, value in kwargs.items() if key not in ("device", "layout", "pin_memory")}
    with torch_private.no_fake_mode():
        try:
            result = call.node.target(*args, **kwargs)  # type: ignore[operator]
        except (RuntimeError, TypeError, ZeroDivisionError):
            return None
    return result.item() if isinstance(result, torch.Tensor) and result.dtype == call.dtype else None
