"""Reductions of what is the same all along an axis: a maximum of equal numbers is the number, their sum a product.

Lowering writes none (`BodyBuilder.reduce`), but fusion may find that what a reduction reads is known.
"""

from __future__ import annotations

import dataclasses

from longhand.lower.ir import AxisSize, Pointwise, PointwiseOp, Reduce, ReduceOp, Value, domains
from longhand.schedule.bodies import rewrite

_OF_EQUALS = frozenset({ReduceOp.SUM, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.ANY, ReduceOp.ALL})


def without_constant_axes(body: tuple[Value, ...]) -> tuple[Value, ...]:
    """An equal body whose reductions go only along axes that their argument varies over; itself if it is one."""
    if not any(isinstance(value, Reduce) and value.op in _OF_EQUALS for value in body):
        return body
    varies = domains(body)
    constant = {
        position: tuple(axis for axis in value.axes if axis not in varies[value.arg])
        for position, value in enumerate(body)
        if isinstance(value, Reduce) and value.op in _OF_EQUALS
    }
    if not any(constant.values()):
        return body
    made: list[Value] = []
    place: list[int] = []
    for position, value in enumerate(body):
        moved = rewrite(value, place)
        missing = constant.get(position, ())
        if missing and isinstance(moved, Reduce):
            place.append(_reduced(moved, missing, made))
        else:
            place.append(len(made))
            made.append(moved)
    return tuple(made)


def _reduced(value: Reduce, missing: tuple[str, ...], made: list[Value]) -> int:
    """Appends the reduction along the other axes, times the number of equal elements where it is a sum."""
    axes = tuple(axis for axis in value.axes if axis not in missing)
    position = value.arg
    if axes:
        position = len(made)
        made.append(dataclasses.replace(value, axes=axes))
    if value.op is not ReduceOp.SUM:
        return position
    made.append(AxisSize(missing, value.dtype, origin=value.origin))
    product = (position, len(made) - 1)
    made.append(Pointwise(PointwiseOp.MUL, product, value.dtype, name=value.name, origin=value.origin))
    return len(made) - 1
