"""One ATen call whose arguments something is known of, and the table of rules: what is known of its result."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from longhand.capture import torch_private
from longhand.capture.known.facts import Affine, AffineValue, Fact, Piecewise, SameNumber, Size

INDEX_TYPES = (torch.int64, torch.int32)


@dataclasses.dataclass(frozen=True)
class KnownCall:
    """One call and what is known of its arguments.

    Attributes:
        node: The call.
        facts: Of each node known so far.
    """

    node: fx.Node
    facts: dict[fx.Node, Fact]

    @property
    def shape(self) -> tuple[Size, ...]:
        """Of the result."""
        return shape_of(self.node)

    @property
    def dtype(self) -> torch.dtype:
        """Of the result."""
        return self.node.meta["val"].dtype

    def fact(self, position: int) -> Fact | None:
        """Of a tensor or number among the arguments."""
        given = self.node.args[position]
        if isinstance(given, fx.Node):
            return self.facts.get(given)
        return SameNumber(given) if isinstance(given, bool | int | float) else None

    def size(self, position: int, default: Size | None = None) -> Size | None:
        """A whole number among the arguments, maybe a symbolic one."""
        if position >= len(self.node.args):
            return default
        given = self.node.args[position]
        return default if given is None else size_of(given)

    def source(self) -> tuple[Fact | None, tuple[Size, ...]]:
        """What is known of the first argument, and its shape."""
        given = self.node.args[0]
        assert isinstance(given, fx.Node)
        return self.facts.get(given), shape_of(given)


Rule = Callable[[KnownCall], Fact | None]
RULES: dict[Any, Rule] = {}


def shape_of(node: fx.Node) -> tuple[Size, ...]:
    """The sizes of a node's tensor."""
    sizes = (size_of(size) for size in node.meta["val"].shape)
    return tuple(size for size in sizes if size is not None)


def size_of(value: Any) -> Size | None:
    """A size as an int or an expression; None for what is no whole number."""
    value = value.meta.get("val") if isinstance(value, fx.Node) else value
    if isinstance(value, torch.SymInt):
        return torch_private.symbolic_expression(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def rule_for(*targets: Any) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(targets, rule))
        return rule

    return register


def as_number(dtype: torch.dtype, number: Any) -> Fact:
    return SameNumber(torch.tensor(number, dtype=dtype).item())


def moved(fact: Fact | None, move: Callable[[Affine], Affine]) -> Fact | None:
    """The fact with its functions moved to other indices."""
    if isinstance(fact, AffineValue):
        return AffineValue(move(fact.value))
    if isinstance(fact, Piecewise):
        return dataclasses.replace(fact, conditions=frozenset(move(c) for c in fact.conditions))
    return fact


def functions_of(fact: Fact | None) -> tuple[Affine, ...]:
    """The functions of the indices that a fact is made of."""
    if isinstance(fact, AffineValue):
        return (fact.value,)
    return tuple(fact.conditions) if isinstance(fact, Piecewise) else ()


def aligned(fact: Fact | None, call: KnownCall) -> Fact | None:
    return moved(fact, lambda f: f.aligned(len(call.shape)))


def whole_number(fact: Fact | None, rank: int) -> Affine | None:
    """A fact about whole numbers as an affine function."""
    if isinstance(fact, AffineValue):
        return fact.value.aligned(rank)
    if isinstance(fact, SameNumber) and isinstance(fact.number, int) and not isinstance(fact.number, bool):
        return Affine(fact.number, (0,) * rank)
    return None


def unwrapped(call: KnownCall, function: Affine) -> Fact | None:
    """The call's result as positions, where none wraps around in its type; a size that varies counts as large."""
    if not any(function.steps):
        fact = number_of(function.offset)
        ends: tuple[Size, ...] = (function.offset,)
    else:
        fact = AffineValue(function)
        ends = () if 0 in call.shape else (function.least(call.shape), function.greatest(call.shape))
    limits = torch.iinfo(call.dtype)
    large = 2 ** (limits.bits // 2 + 14)
    known = [
        end if isinstance(end, int) else end.subs(dict.fromkeys(end.free_symbols, large)) for end in ends
    ]
    return fact if all(limits.min <= end <= limits.max for end in known) else None


def number_of(value: Size) -> Fact | None:
    return SameNumber(value) if isinstance(value, int) else None


def two_numbers(source: Piecewise, inside: Any, outside: Any) -> Fact:
    if inside == outside and math.copysign(1, inside) == math.copysign(1, outside):
        return SameNumber(inside)
    return Piecewise(source.conditions, inside, outside)
