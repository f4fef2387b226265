"""What is known of a tensor that no input decides: a number, a position, or one of two numbers by a condition.

A position is an affine function of the tensor's own indices (``arange(seq)[:, None]`` is ``i``), a condition a
conjunction of affine inequalities (``i - j >= 0`` is the causal mask). Sizes may be symbolic: what is proven holds for
every size in their range.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import sympy

from longhand.capture.nan_equality import nan_equals_itself

Size: TypeAlias = int | sympy.Expr
Number = bool | int | float


@dataclasses.dataclass(frozen=True)
class Affine:
    """``offset + sum(steps[d] * index[d])`` over the indices of a tensor.

    Attributes:
        offset: The value at the first element.
        steps: For each dimension: by how much the value grows along it.
    """

    offset: Size
    steps: tuple[int, ...]

    def __neg__(self) -> Affine:
        return Affine(-self.offset, tuple(-step for step in self.steps))

    def plus(self, number: Size) -> Affine:
        """The function plus a number."""
        return Affine(_plain(self.offset + number), self.steps)

    def times(self, factor: int) -> Affine:
        """The function times a whole number."""
        return Affine(_plain(self.offset * factor), tuple(step * factor for step in self.steps))

    def aligned(self, rank: int) -> Affine:
        """The function on a tensor of more dimensions that this one is broadcast to."""
        return Affine(self.offset, (0,) * (rank - len(self.steps)) + self.steps)

    def least(self, shape: Sequence[Size]) -> Size:
        """Its smallest value on a tensor of that shape (which has elements)."""
        falls = (step * (size - 1) for step, size in zip(self.steps, shape, strict=True) if step < 0)
        return _plain(sum(falls, start=self.offset))

    def greatest(self, shape: Sequence[Size]) -> Size:
        """Its largest value on a tensor of that shape."""
        return _plain(-(-self).least(shape))


def sum_of(left: Affine, right: Affine) -> Affine:
    """Two functions on broadcast tensors, added."""
    rank = max(len(left.steps), len(right.steps))
    left, right = left.aligned(rank), right.aligned(rank)
    steps = tuple(a + b for a, b in zip(left.steps, right.steps, strict=True))
    return Affine(_plain(left.offset + right.offset), steps)


@dataclasses.dataclass(frozen=True)
@nan_equals_itself
class SameNumber:
    """Every element is one number, a bool in a tensor of bools."""

    number: Number


@dataclasses.dataclass(frozen=True)
class AffineValue:
    """Every element is what an affine function says of its indices."""

    value: Affine


@dataclasses.dataclass(frozen=True)
@nan_equals_itself
class Piecewise:
    """One number where all `conditions` are at least 0, another elsewhere.

    Attributes:
        conditions: At least one; each holds somewhere and does not hold somewhere, as far as is known.
        inside: Where they hold.
        outside: Where one does not.
    """

    conditions: frozenset[Affine]
    inside: Number
    outside: Number

    def turned(self) -> Piecewise:
        """The same values, told by where the condition does not hold; itself where there are several."""
        if len(self.conditions) > 1:
            return self
        (condition,) = self.conditions
        return Piecewise(frozenset([(-condition).plus(-1)]), self.outside, self.inside)


Fact = SameNumber | AffineValue | Piecewise


def choice(conditions: Iterable[Affine], inside: Number, outside: Number, shape: Sequence[Size]) -> Fact:
    """The simplest fact: conditions that hold everywhere are left out; one that holds nowhere decides."""
    kept = []
    for condition in conditions:
        if is_nonnegative(condition.least(shape)):
            continue
        if is_nonnegative(-condition.greatest(shape) - 1):
            return SameNumber(outside)
        kept.append(condition)
    return Piecewise(frozenset(kept), inside, outside) if kept else SameNumber(inside)


def is_nonnegative(value: Size) -> bool:
    """Whether a number is known to be at least 0; a symbolic size is at least 1."""
    if isinstance(value, int):
        return value >= 0
    more = {symbol: sympy.Dummy(nonnegative=True, integer=True) + 1 for symbol in value.free_symbols}
    return bool(sympy.expand(value.subs(more)).is_nonnegative)


def _plain(value: Size) -> Size:
    """An int where the expression is one."""
    if isinstance(value, int):
        return value
    expanded = sympy.expand(value)
    return int(expanded) if expanded.is_Integer else expanded
