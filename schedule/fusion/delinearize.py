"""Taking an index apart into one affine expression per axis of the nest that filled the buffer.

A contiguous buffer's elements are numbered in a mixed radix: position = d0 + n0 * (d1 + n1 * (d2 ...)). An affine
position has unique digits if each of its terms belongs to one digit and no digit can leave its range.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import sympy

from longhand.lower.ir import (
    Axis,
    AxisSize,
    Constant,
    Index,
    IndexExpression,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Scalar,
    Size,
    Value,
    domains,
)
from longhand.schedule.bodies import make_index
from longhand.schedule.sizes import divide, known_at_most, plus, product, rank, same, times


@dataclasses.dataclass(frozen=True)
class Digit:
    """One axis of the producer: its step in the buffer and its size."""

    axis: str
    step: Size
    size: Size


Chain = tuple[Digit, ...]  # innermost first
Terms = tuple[tuple[tuple[str, Size], ...], tuple[tuple[int, Size], ...]]  # an index without its offset
Bounds = Mapping[Terms, tuple[Size, Size]]  # both inclusive


def delinearize(index: Index, sizes: Mapping[str, Size]) -> Chain | None:
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


def delinearized_load(
    load: Load, chain: Chain, sizes: Mapping[str, Size], body: list[Value]
) -> dict[str, Index] | None:
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
    bounds = {} if load.mask is None else _mask_bounds(load.mask, body, sizes)
    if not all(
        _is_below(value, coefficient, chain, load, sizes, bounds, body)
        for value, coefficient in load.index.values
    ):
        return None
    for offsets in _offsets(load.index.offset, chain):
        indices = [make_index(*parts) for parts in zip(offsets, axes, values, strict=True)]
        if all(_in_range(one, digit.size, sizes, bounds) for one, digit in zip(indices, chain, strict=True)):
            return {digit.axis: one for digit, one in zip(chain, indices, strict=True)}
    return None


def _place(coefficient: Size, chain: Chain) -> tuple[int, Size] | None:
    """The digit that a coefficient steps in, and by how much: the outermost whose step divides it."""
    for number in reversed(range(len(chain))):
        factor = divide(coefficient, chain[number].step)
        if factor is not None:
            return number, factor
    return None


def _offsets(offset: Size, chain: Chain) -> list[list[Size]]:
    """Ways to spread a constant over the digits: rounded down, (for offsets before the start) to the nearest, or all of
    it in one digit, as the second half of a join has it, whose place is less by a half of its own axis."""
    if not chain:
        return [[]] if offset == 0 else []
    return [*_spread(offset, chain), *_in_one_digit(offset, chain)]


def _in_one_digit(offset: Size, chain: Chain) -> list[list[Size]]:
    ways: list[list[Size]] = []
    for number, digit in enumerate(chain):
        factor = divide(offset, digit.step)
        if factor is not None and offset != 0:
            way: list[Size] = [0] * len(chain)
            way[number] = factor
            ways.append(way)
    return ways


def _spread(offset: Size, chain: Chain) -> list[list[Size]]:
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


def _is_below(
    value: int,
    coefficient: Size,
    chain: Chain,
    load: Load,
    sizes: Mapping[str, Size],
    bounds: Bounds,
    body: list[Value],
) -> bool:
    """Whether a position that is data is below the size of its digit.

    By the contract of `Index` it is a place in a dimension of what is read; that may be a view, in which several digits
    are one dimension (or a part of one). Its size is known from the load's mask, or from what the other terms leave of
    the buffer: the view as a whole lies in it.
    """
    place = _place(coefficient, chain)
    assert place is not None
    number, factor = place
    if factor != 1:
        return False
    step, size = chain[number].step, chain[number].size
    _, high = bounds.get(((), ((value, 1),)), (0, None))
    if high is not None and known_at_most(plus(high, 1), size):
        return True
    masked = frozenset[str]() if load.mask is None else domains((*body, load))[load.mask]
    left = plus(times(chain[-1].step, chain[-1].size), times(-1, load.index.offset))
    for axis, stride in load.index.axes:
        if axis not in masked and known_at_most(0, stride):
            left = plus(left, times(times(stride, plus(sizes[axis], -1)), -1))
    return known_at_most(left, times(step, size))


def _in_range(index: Index, size: Size, sizes: Mapping[str, Size], bounds: Bounds) -> bool:
    """Whether 0 <= index < size for sure; a position that is data and alone has been looked at before."""
    if index.values:
        return not index.axes and index.offset == 0 and len(index.values) == 1 and index.values[0][1] == 1
    low: Size = 0
    high: Size = 0
    for axis, coefficient in index.axes:
        first, last_one = _axis_range(axis, sizes, bounds)
        if known_at_most(0, coefficient):
            low, high = plus(low, times(coefficient, first)), plus(high, times(coefficient, last_one))
        elif known_at_most(coefficient, 0):
            low, high = plus(low, times(coefficient, last_one)), plus(high, times(coefficient, first))
        else:
            return False
    if (index.axes, ()) in bounds:
        tighter_low, tighter_high = bounds[index.axes, ()]
        low = tighter_low if known_at_most(low, tighter_low) else low
        high = tighter_high if known_at_most(tighter_high, high) else high
    last = plus(size, -1)
    return known_at_most(0, plus(low, index.offset)) and known_at_most(plus(high, index.offset), last)


def _axis_range(axis: str, sizes: Mapping[str, Size], bounds: Bounds) -> tuple[Size, Size]:
    """The first and the last turn of an axis, of those that a mask leaves."""
    low, high = bounds.get((((axis, 1),), ()), (0, plus(sizes[axis], -1)))
    last = plus(sizes[axis], -1)
    return low if known_at_most(0, low) else 0, high if known_at_most(high, last) else last


def _mask_bounds(mask: int, body: list[Value], sizes: Mapping[str, Size]) -> Bounds:
    """What a mask that is true says about affine terms: `0 <= col - 3` and `col - 3 < n` bound col."""
    lows: dict[Terms, list[Size]] = {}
    highs: dict[Terms, list[Size]] = {}
    pending = [mask]
    while pending:
        value = body[pending.pop()]
        if not isinstance(value, Pointwise):
            continue
        if value.op is PointwiseOp.LOGICAL_AND:
            pending += value.args
            continue
        value, op = _comparison(value, body)
        if len(value.args) != 2 or op not in _FLIPPED:
            continue
        left, right = (_affine(arg, body, sizes) for arg in value.args)
        terms, others = (left.axes, left.values), (right.axes, right.values)
        if any(terms) == any(others):
            continue
        if any(others):
            left, right, terms, op = right, left, others, _FLIPPED[op]
        limit = plus(right.offset, times(-1, left.offset))
        if op in (PointwiseOp.GE, PointwiseOp.EQ):
            lows.setdefault(terms, []).append(limit)
        if op is PointwiseOp.GT:
            lows.setdefault(terms, []).append(plus(limit, 1))
        if op in (PointwiseOp.LE, PointwiseOp.EQ):
            highs.setdefault(terms, []).append(limit)
        if op is PointwiseOp.LT:
            highs.setdefault(terms, []).append(plus(limit, -1))
    unbounded = 1 << 62
    return {
        terms: (_greatest(lows.get(terms, [-unbounded])), _least(highs.get(terms, [unbounded])))
        for terms in (*lows, *highs)
    }


def _greatest(limits: list[Size]) -> Size:
    """The tightest of several lower limits; the first where they cannot be compared."""
    return functools.reduce(lambda one, other: other if known_at_most(one, other) else one, limits)


def _least(limits: list[Size]) -> Size:
    """The tightest of several upper limits."""
    return functools.reduce(lambda one, other: other if known_at_most(other, one) else one, limits)


def _comparison(value: Pointwise, body: list[Value]) -> tuple[Pointwise, PointwiseOp]:
    """A condition's comparison, and what it says: ``~(col < half)`` is ``col >= half``."""
    inner = body[value.args[0]] if value.op is PointwiseOp.LOGICAL_NOT else None
    if isinstance(inner, Pointwise) and inner.op in _OTHERWISE:
        return inner, _OTHERWISE[inner.op]
    return value, value.op


_OTHERWISE = {
    PointwiseOp.LT: PointwiseOp.GE,
    PointwiseOp.GE: PointwiseOp.LT,
    PointwiseOp.GT: PointwiseOp.LE,
    PointwiseOp.LE: PointwiseOp.GT,
}
_FLIPPED = {
    PointwiseOp.LT: PointwiseOp.GT,
    PointwiseOp.GT: PointwiseOp.LT,
    PointwiseOp.LE: PointwiseOp.GE,
    PointwiseOp.GE: PointwiseOp.LE,
    PointwiseOp.EQ: PointwiseOp.EQ,
}


def _affine(position: int, body: list[Value], sizes: Mapping[str, Size]) -> Index:
    """A value of a body as an affine expression: of axes, a number, or of itself."""
    value = body[position]
    if isinstance(value, IndexExpression) and not value.index.values:
        return value.index
    if isinstance(value, Constant | Scalar) and not isinstance(value.value, float):
        return Index(value.value)
    if isinstance(value, AxisSize) and not value.dtype.is_floating_point:
        return Index(product(sizes[axis] for axis in value.axes))
    return Index(values=((position, 1),))


def _unused(name: str, taken: Mapping[str, Size]) -> str:
    return name if name not in taken else _unused(f"{name}_", taken)
