"""Taking an index apart into one affine expression per axis of the nest that filled the buffer.

A contiguous buffer's elements are numbered in a mixed radix: position = d0 + n0 * (d1 + n1 * (d2 ...)). An affine
position has unique digits if each of its terms belongs to one digit and no digit can leave its range.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import sympy

from longhand.lower.ir import (
    Axis,
    Constant,
    Index,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Position,
    Scalar,
    Size,
    Value,
)
from longhand.schedule.bodies import make_index
from longhand.schedule.sizes import divide, known_at_most, plus, rank, same, times


@dataclasses.dataclass(frozen=True)
class Digit:
    """One axis of the producer: its step in the buffer and its size."""

    axis: str
    step: Size
    size: Size


Chain = tuple[Digit, ...]  # innermost first
Bounds = tuple[Size, Size]  # both inclusive


def chain_of(index: Index, sizes: Mapping[str, Size]) -> Chain | None:
    """The digits of a store that covers its whole buffer, innermost first; None if it does not."""
    if index.values or index.offset != 0:
        return None
    terms = sorted(index.axes, key=lambda term: rank(term[1]))
    step: Size = 1
    chain: list[Digit] = []
    for axis, coefficient in terms:
        if not same(coefficient, step):
            return None
        chain.append(Digit(axis, coefficient, sizes[axis]))
        step = times(step, sizes[axis])
    return tuple(chain)


def split_for(index: Index, chain: Chain, nest: Nest) -> dict[str, tuple[Axis, ...]]:
    """The first axis of an index that runs over more than one digit, in two pieces; empty if there is none."""
    sizes = {axis.name: axis.size for axis in nest.axes}
    for axis, coefficient in index.axes:
        place = _place(coefficient, chain)
        if place is None:
            continue
        number, factor = place
        if factor == 0 or known_at_most(times(factor, sizes[axis]), chain[number].size):
            continue
        inner = divide(chain[number].size, factor)
        outer = None if inner is None else divide(sizes[axis], inner)
        if inner is None or outer is None or inner == 1 or outer == 1 or same(inner, sizes[axis]):
            continue
        return {
            axis: (Axis(_unused(f"{axis}_outer", sizes), outer), Axis(_unused(f"{axis}_inner", sizes), inner))
        }
    return {}


def digits(load: Load, chain: Chain, sizes: Mapping[str, Size], body: list[Value]) -> dict[str, Index] | None:
    """For each axis of the producer its value at the place of `load`; None where that is not known to be unique."""
    axes: list[list[tuple[str, Size]]] = [[] for _ in chain]
    values: list[list[tuple[int, Size]]] = [[] for _ in chain]
    for axis, coefficient in load.index.axes:
        place = _place(coefficient, chain)
        if place is None:
            return None
        axes[place[0]].append((axis, place[1]))
    for value, coefficient in load.index.values:
        place = _place(coefficient, chain)
        if place is None:
            return None
        values[place[0]].append((value, place[1]))
    bounds = {} if load.mask is None else _mask_bounds(load.mask, body)
    for offsets in _offsets(load.index.offset, chain):
        found = [make_index(*parts) for parts in zip(offsets, axes, values, strict=True)]
        if all(_in_range(one, digit.size, sizes, bounds) for one, digit in zip(found, chain, strict=True)):
            return {digit.axis: one for digit, one in zip(chain, found, strict=True)}
    return None


def _place(coefficient: Size, chain: Chain) -> tuple[int, Size] | None:
    """The digit that a coefficient steps in, and by how much: the outermost whose step divides it."""
    for number in reversed(range(len(chain))):
        factor = divide(coefficient, chain[number].step)
        if factor is not None:
            return number, factor
    return None


def _offsets(offset: Size, chain: Chain) -> list[list[Size]]:
    """Ways to spread a constant over the digits: rounded down, and (for offsets before the start) to the nearest."""
    if not chain:
        return [[]] if offset == 0 else []
    if not isinstance(offset, int) or any(not isinstance(digit.step, int) for digit in chain):
        spread: list[Size] = [0] * len(chain)
        for term in sympy.Add.make_args(sympy.sympify(offset)):
            place = _place(int(term) if term.is_Integer else term, chain)
            if place is None:
                return []
            spread[place[0]] = plus(spread[place[0]], place[1])
        return [spread]
    ways: list[list[Size]] = []
    for nearest in (False, True):
        rest = offset
        way: list[Size] = []
        for digit in reversed(chain):
            step = rank(digit.step)
            quotient = (rest + step // 2) // step if nearest else rest // step
            way.append(quotient)
            rest -= quotient * step
        ways.append(way[::-1])
    return ways


def _in_range(
    index: Index, size: Size, sizes: Mapping[str, Size], bounds: Mapping[tuple[tuple[str, Size], ...], Bounds]
) -> bool:
    """Whether 0 <= index < size for sure. A gathered position alone is in range by the contract of `Index`."""
    if index.values:
        return not index.axes and index.offset == 0 and len(index.values) == 1 and index.values[0][1] == 1
    low: Size = 0
    high: Size = 0
    for axis, coefficient in index.axes:
        reach = times(coefficient, plus(sizes[axis], -1))
        if known_at_most(0, coefficient):
            high = plus(high, reach)
        elif known_at_most(coefficient, 0):
            low = plus(low, reach)
        else:
            return False
    if index.axes in bounds:
        tighter_low, tighter_high = bounds[index.axes]
        low = tighter_low if known_at_most(low, tighter_low) else low
        high = tighter_high if known_at_most(tighter_high, high) else high
    last = plus(size, -1)
    return known_at_most(0, plus(low, index.offset)) and known_at_most(plus(high, index.offset), last)


def _mask_bounds(mask: int, body: list[Value]) -> dict[tuple[tuple[str, Size], ...], Bounds]:
    """What a mask that is true says about affine terms: `0 <= col - 3` and `col - 3 < n` bound col."""
    lows: dict[tuple[tuple[str, Size], ...], list[Size]] = {}
    highs: dict[tuple[tuple[str, Size], ...], list[Size]] = {}
    pending = [mask]
    while pending:
        value = body[pending.pop()]
        if not isinstance(value, Pointwise):
            continue
        if value.op is PointwiseOp.LOGICAL_AND:
            pending += value.args
            continue
        op: PointwiseOp = value.op
        left, right = (_affine(body[arg]) for arg in value.args) if len(value.args) == 2 else (None, None)
        if left is None or right is None or op not in _FLIPPED or bool(left.axes) == bool(right.axes):
            continue
        if right.axes:
            left, right, op = right, left, _FLIPPED[op]
        limit = plus(right.offset, times(-1, left.offset))
        if op in (PointwiseOp.GE, PointwiseOp.EQ):
            lows.setdefault(left.axes, []).append(limit)
        if op is PointwiseOp.GT:
            lows.setdefault(left.axes, []).append(plus(limit, 1))
        if op in (PointwiseOp.LE, PointwiseOp.EQ):
            highs.setdefault(left.axes, []).append(limit)
        if op is PointwiseOp.LT:
            highs.setdefault(left.axes, []).append(plus(limit, -1))
    unbounded = 1 << 62
    return {
        terms: (lows.get(terms, [-unbounded])[0], highs.get(terms, [unbounded])[0])
        for terms in (*lows, *highs)
    }


_FLIPPED = {
    PointwiseOp.LT: PointwiseOp.GT,
    PointwiseOp.GT: PointwiseOp.LT,
    PointwiseOp.LE: PointwiseOp.GE,
    PointwiseOp.GE: PointwiseOp.LE,
    PointwiseOp.EQ: PointwiseOp.EQ,
}


def _affine(value: Value) -> Index | None:
    """A value as an affine expression of axes, if it is one."""
    if isinstance(value, Position) and not value.index.values:
        return value.index
    if isinstance(value, Constant | Scalar) and not value.dtype.is_floating_point:
        return None if isinstance(value.value, float) else Index(value.value)
    return None


def _unused(name: str, taken: Mapping[str, Size]) -> str:
    return name if name not in taken else _unused(f"{name}_", taken)
