"""What is known of tensors out of nothing, of arithmetic on positions, of comparisons and of choices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from longhand.capture.known.call import (
    INDEX_TYPES,
    KnownCall,
    aligned,
    as_number,
    rule_for,
    two_numbers,
    unwrapped,
    whole_number,
)
from longhand.capture.known.facts import Affine, AffineValue, Fact, Piecewise, SameNumber, choice, sum_of

aten = torch.ops.aten


@rule_for(aten.arange.default, aten.arange.start, aten.arange.start_step)
def _arange(call: KnownCall) -> Fact | None:
    only = len(call.node.args) == 1
    start, step = (0 if only else call.size(0)), call.size(2, 1)
    if call.dtype not in INDEX_TYPES or start is None or not isinstance(step, int):
        return None
    return AffineValue(Affine(start, (step,)))


@rule_for(aten.full.default, aten.full_like.default, aten.scalar_tensor.default, aten.new_full.default)
def _full(call: KnownCall) -> Fact | None:
    elsewhere: dict[Any, int] = {aten.scalar_tensor.default: 0, aten.new_full.default: 2}
    position = elsewhere.get(call.node.target, 1)
    given = call.node.args[position]
    return as_number(call.dtype, given) if isinstance(given, bool | int | float) else None


@rule_for(aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default)
def _zeros(call: KnownCall) -> Fact | None:
    return as_number(call.dtype, 0)


@rule_for(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def _ones(call: KnownCall) -> Fact | None:
    return as_number(call.dtype, 1)


@rule_for(aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor, aten.sub.Scalar, aten.rsub.Scalar)
def _add(call: KnownCall) -> Fact | None:
    left, right = _two(call)
    if left is None or right is None or call.dtype not in INDEX_TYPES or "alpha" in call.node.kwargs:
        return None
    if len(call.node.args) > 2:
        return None
    if call.node.target is aten.rsub.Scalar:
        left, right = right, left
    return unwrapped(call, sum_of(left, right if "add" in str(call.node.target) else -right))


@rule_for(aten.mul.Tensor, aten.mul.Scalar)
def _mul(call: KnownCall) -> Fact | None:
    facts = [call.fact(0), call.fact(1)]
    place = next((fact for fact in facts if isinstance(fact, AffineValue)), None)
    factor = next((fact for fact in facts if isinstance(fact, SameNumber)), None)
    if place is None or factor is None or call.dtype not in INDEX_TYPES:
        return None
    if isinstance(factor.number, bool) or not isinstance(factor.number, int):
        return None
    return unwrapped(call, place.value.aligned(len(call.shape)).times(factor.number))


@rule_for(aten.cumsum.default)
def _cumsum(call: KnownCall) -> Fact | None:
    fact = call.fact(0)
    if not isinstance(fact, SameNumber) or call.dtype not in INDEX_TYPES or not call.shape:
        return None
    step, dim = int(fact.number), int(call.node.args[1]) % len(call.shape)  # type: ignore[arg-type]
    if step == 0:
        return SameNumber(0)
    return unwrapped(call, Affine(step, tuple(step if d == dim else 0 for d in range(len(call.shape)))))


def _two(call: KnownCall) -> tuple[Affine | None, Affine | None]:
    rank = len(call.shape)
    left, right = (whole_number(call.fact(position), rank) for position in (0, 1))
    for position in (0, 1):  # the bounds of positions hold in the tensor that they are of
        given = call.node.args[position]
        value = given.meta["val"] if isinstance(given, fx.Node) else None
        if isinstance(value, torch.Tensor) and value.dtype not in (*INDEX_TYPES, torch.bool):
            return None, None
    return left, right


@rule_for(aten.ge.Tensor, aten.ge.Scalar, aten.gt.Tensor, aten.gt.Scalar)
def _greater(call: KnownCall) -> Fact | None:
    left, right = _two(call)
    if left is None or right is None:
        return None
    strict = 1 if "gt" in str(call.node.target) else 0
    return choice([sum_of(left, -right).plus(-strict)], True, False, call.shape)


@rule_for(aten.le.Tensor, aten.le.Scalar, aten.lt.Tensor, aten.lt.Scalar)
def _less(call: KnownCall) -> Fact | None:
    left, right = _two(call)
    if left is None or right is None:
        return None
    strict = 1 if "lt" in str(call.node.target) else 0
    return choice([sum_of(right, -left).plus(-strict)], True, False, call.shape)


@rule_for(aten.eq.Tensor, aten.eq.Scalar, aten.ne.Tensor, aten.ne.Scalar)
def _equal(call: KnownCall) -> Fact | None:
    left, right = _two(call)
    if left is None or right is None:
        return None
    apart = sum_of(left, -right)
    equal = choice([apart, -apart], True, False, call.shape)
    return equal if "eq" in str(call.node.target) else _not(equal)


@rule_for(aten.bitwise_and.Tensor, aten.logical_and.default)
def _and(call: KnownCall) -> Fact | None:
    facts = [call.fact(0), call.fact(1)]
    if call.dtype is not torch.bool:
        return None
    if any(isinstance(fact, SameNumber) and fact.number is False for fact in facts):
        return SameNumber(False)
    conditions: set[Affine] = set()
    for fact in facts:
        if isinstance(fact, Piecewise) and (fact.inside, fact.outside) == (True, False):
            conditions |= {condition.aligned(len(call.shape)) for condition in fact.conditions}
        elif not isinstance(fact, SameNumber):
            return None
    return choice(conditions, True, False, call.shape)


@rule_for(aten.bitwise_or.Tensor, aten.logical_or.default)
def _or(call: KnownCall) -> Fact | None:
    facts = [call.fact(0), call.fact(1)]
    if call.dtype is not torch.bool:
        return None
    if any(isinstance(fact, SameNumber) and fact.number is True for fact in facts):
        return SameNumber(True)
    rest = [fact for fact in facts if not isinstance(fact, SameNumber)]
    return aligned(rest[0], call) if len(rest) == 1 else None


@rule_for(aten.bitwise_not.default, aten.logical_not.default)
def _invert(call: KnownCall) -> Fact | None:
    fact = call.fact(0)
    source = call.node.args[0]
    if fact is None or not isinstance(source, fx.Node) or source.meta["val"].dtype is not torch.bool:
        return None
    return _not(fact)


def _not(fact: Fact) -> Fact | None:
    if isinstance(fact, SameNumber):
        return SameNumber(not fact.number)
    if not isinstance(fact, Piecewise):
        return None
    if len(fact.conditions) == 1 and (fact.inside, fact.outside) == (True, False):
        (condition,) = fact.conditions
        return Piecewise(frozenset([(-condition).plus(-1)]), True, False)
    return Piecewise(fact.conditions, fact.outside, fact.inside)


@rule_for(aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar)
def _where(call: KnownCall) -> Fact | None:
    condition, then, otherwise = (call.fact(position) for position in range(3))
    if isinstance(condition, SameNumber):
        return _taken(call, 1 if condition.number else 2)
    if (
        not isinstance(condition, Piecewise)
        or not isinstance(then, SameNumber)
        or not isinstance(otherwise, SameNumber)
    ):
        return None
    return _chosen(call, condition, lambda holds: then.number if holds else otherwise.number)


@rule_for(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def _masked_fill(call: KnownCall) -> Fact | None:
    base, condition, filling = (call.fact(position) for position in range(3))
    if isinstance(condition, SameNumber):
        return _taken(call, 2 if condition.number else 0)
    if (
        not isinstance(condition, Piecewise)
        or not isinstance(base, SameNumber)
        or not isinstance(filling, SameNumber)
    ):
        return None
    return _chosen(call, condition, lambda holds: filling.number if holds else base.number)


@rule_for(aten.triu.default, aten.tril.default)
def _triangle(call: KnownCall) -> Fact | None:
    fact, diagonal = call.fact(0), call.size(1, 0)
    if not isinstance(fact, SameNumber) or not isinstance(diagonal, int):
        return None
    above = Affine(-diagonal, (*(0 for _ in call.shape[2:]), -1, 1))
    kept = above if call.node.target is aten.triu.default else -above
    nothing = as_number(call.dtype, 0)
    assert isinstance(nothing, SameNumber)
    return choice([kept], fact.number, nothing.number, call.shape)


def _taken(call: KnownCall, position: int) -> Fact | None:
    """What is known of an argument that is the result everywhere, in the result's type."""
    fact, given = call.fact(position), call.node.args[position]
    if isinstance(fact, SameNumber):
        return as_number(call.dtype, fact.number)
    is_same_type = isinstance(given, fx.Node) and given.meta["val"].dtype is call.dtype
    return aligned(fact, call) if is_same_type else None


def _chosen(call: KnownCall, condition: Piecewise, pick: Callable[[Any], Any]) -> Fact | None:
    inside, outside = (as_number(call.dtype, pick(value)) for value in (condition.inside, condition.outside))
    assert isinstance(inside, SameNumber) and isinstance(outside, SameNumber)
    moved = aligned(condition, call)
    assert isinstance(moved, Piecewise)
    return two_numbers(moved, inside.number, outside.number)
