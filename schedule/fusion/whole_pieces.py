"""What is asked of an axis, asked of its pieces: ``2 * pair + col < 2 * n`` is ``pair < n``.

A join that reads pairs splits its own axis into pairs, too. Its condition then no longer says which pairs are read,
and depends on both pieces, though all of a pair is on one side; said of the pairs, it does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from longhand.lower.ir import (
    Axis,
    Constant,
    Index,
    IndexExpression,
    Nest,
    Pointwise,
    PointwiseOp,
    Scalar,
    Size,
    Value,
)
from longhand.schedule.bodies import make_index, rewrite
from longhand.schedule.sizes import divide, plus, times

_OF_WHOLE_PIECES = frozenset({PointwiseOp.LT, PointwiseOp.GE})


def ask_pieces(nest: Nest, pieces: Mapping[str, Sequence[Axis]]) -> Nest:
    """The nest with conditions on split axes as conditions on their outer pieces, where the limit is whole pieces.

    Args:
        nest: Its axes are split already.
        pieces: Of each axis that was split its pieces, outermost first.
    """
    body: list[Value] = []
    positions: list[int] = []
    for value in nest.body:
        moved = rewrite(value, positions)
        if isinstance(moved, Pointwise) and moved.op in _OF_WHOLE_PIECES:
            moved = _asked(moved, body, pieces)
        positions.append(len(body))
        body.append(moved)
    return Nest(nest.axes, tuple(body))


def _asked(condition: Pointwise, body: list[Value], pieces: Mapping[str, Sequence[Axis]]) -> Pointwise:
    """``2 * pair + col < 8`` as ``pair < 4``; what else there is stays as it is."""
    place, limit = (body[position] for position in condition.args)
    if not isinstance(place, IndexExpression) or not isinstance(limit, Constant | Scalar):
        return condition
    if isinstance(limit.value, float) or place.index.values:
        return condition
    for parts in pieces.values():
        of_pieces = _in_pieces(place.index, limit.value, parts)
        if of_pieces is None:
            continue
        outer, number = of_pieces
        body.append(dataclasses.replace(place, index=make_index(0, [(outer, 1)])))
        if isinstance(limit, Constant) and isinstance(number, int):
            body.append(dataclasses.replace(limit, value=number))
        else:
            body.append(Scalar(number, limit.dtype, limit.name, limit.origin))
        return dataclasses.replace(condition, args=(len(body) - 2, len(body) - 1))
    return condition


def _in_pieces(index: Index, limit: Size, parts: Sequence[Axis]) -> tuple[str, Size] | None:
    """The outer piece of an axis, and how many of it are below a limit; None if those are not whole."""
    if len(parts) != 2:
        return None
    outer, inner = parts
    if dict(index.axes) != {outer.name: inner.size, inner.name: 1}:
        return None
    number = divide(plus(limit, times(index.offset, -1)), inner.size)
    return None if number is None else (outer.name, number)
