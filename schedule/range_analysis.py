"""What the sizes of a call make certain: comparisons of positions that always hold, gathers that are plain.

``position_embedding[arange(seq)]`` is written with a bounds check and a gathered index; where seq is known to be no
larger than the table it is a plain load. Everything is decided for all positions of the nest and all values of symbols.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch

from longhand.lower.ir import (
    Constant,
    Index,
    IndexExpression,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Reduce,
    Scalar,
    Size,
    Store,
    Value,
)
from longhand.schedule.kernels.axis_collapsing import with_arguments
from longhand.schedule.sizes import is_negative, known_at_most, plus, times

Bounds = tuple[Size, Size]  # both inclusive


def simplify_predicates(nest: Nest) -> Nest:
    """The nest with what is certain written as such. Values that nothing uses any more stay in the body."""
    sizes = {axis.name: axis.size for axis in nest.axes}
    reduces = any(isinstance(value, Reduce) for value in nest.body)
    stands_for: dict[int, int] = {}
    body: list[Value] = []
    for position, value in enumerate(nest.body):
        value = with_arguments(value, lambda argument: stands_for.get(argument, argument))
        if isinstance(value, Load | Store):
            value = _plain_access(value, body)
            if isinstance(value, Load) and not reduces and _is_never_read(value, body):
                value = Constant(_as_number(value.other, value.dtype), value.dtype, value.name, value.origin)
        elif isinstance(value, Pointwise):
            value = _by_known_condition(value, body)
            same_as = _same_as(value, body)
            if same_as is not None:
                stands_for[position] = same_as
            truth = _truth(value, body, sizes)
            if truth is not None:
                value = Constant(truth, torch.bool, origin=value.origin)
        body.append(value)
    return Nest(nest.axes, tuple(body))


def _plain_access(value: Load | Store, body: list[Value]) -> Load | Store:
    """Gathered positions become axes, and a mask that always holds goes."""
    offset, axes, values = value.index.offset, dict(value.index.axes), []
    for position, factor in value.index.values:
        gathered = body[position]
        if isinstance(gathered, IndexExpression) and not gathered.index.values:
            offset = plus(offset, times(factor, gathered.index.offset))
            for axis, step in gathered.index.axes:
                axes[axis] = plus(axes.get(axis, 0), times(factor, step))
        else:
            values.append((position, factor))
    index = Index(
        offset, tuple(sorted((axis, step) for axis, step in axes.items() if step != 0)), tuple(values)
    )
    # An axis that cancels out would change what the value varies over.
    if {axis for axis, _ in value.index.axes} <= {axis for axis, _ in index.axes}:
        value = dataclasses.replace(value, index=index)
    if value.mask is not None and _constant(body[value.mask]) is True:
        value = dataclasses.replace(value, mask=None)
        if isinstance(value, Load):
            value = dataclasses.replace(value, other=0)
    return value


def _is_never_read(load: Load, body: list[Value]) -> bool:
    return load.mask is not None and _constant(body[load.mask]) is False


def _as_number(other: float, dtype: torch.dtype) -> float | int | bool:
    """What stands for an element, as Python writes a number of its type."""
    if dtype is torch.bool:
        return bool(other)
    return float(other) if dtype.is_floating_point else int(other)


def _constant(value: Value) -> bool | None:
    return value.value if isinstance(value, Constant) and isinstance(value.value, bool) else None


def _same_as(value: Pointwise, body: list[Value]) -> int | None:
    """The argument that the value always equals."""
    known = [_constant(body[argument]) for argument in value.args]
    match value.op:
        case PointwiseOp.WHERE if known[0] is not None:
            chosen = value.args[1 if known[0] else 2]
            return chosen if getattr(body[chosen], "dtype", None) is value.dtype else None
        case PointwiseOp.LOGICAL_AND if True in known:
            return value.args[1 - known.index(True)]
        case PointwiseOp.LOGICAL_OR if False in known:
            return value.args[1 - known.index(False)]
    return None


def _by_known_condition(value: Pointwise, body: list[Value]) -> Pointwise:
    """``where(x != y, b, a)`` for ``where(x == y, a, b)``, where the body holds ``x != y`` already."""
    condition = body[value.args[0]] if value.op is PointwiseOp.WHERE else None
    if not isinstance(condition, Pointwise) or condition.op is not PointwiseOp.EQ:
        return value
    for position, other in enumerate(body[: value.args[0]]):
        if isinstance(other, Pointwise) and other.op is PointwiseOp.NE and _are_alike(other, condition, body):
            return dataclasses.replace(value, args=(position, value.args[2], value.args[1]))
    return value


def _are_alike(one: Pointwise, other: Pointwise, body: list[Value]) -> bool:
    """Whether two values are made of the same, in the same order."""

    def key(argument: int) -> object:
        value = body[argument]
        return (value.value, value.dtype) if isinstance(value, Constant) else argument

    return [key(argument) for argument in one.args] == [key(argument) for argument in other.args]


def _truth(value: Pointwise, body: list[Value], sizes: Mapping[str, Size]) -> bool | None:
    """Whether a comparison always or never holds."""
    known = [_constant(body[argument]) for argument in value.args]
    match value.op:
        case PointwiseOp.LOGICAL_AND if False in known:
            return False
        case PointwiseOp.LOGICAL_OR if True in known:
            return True
        case PointwiseOp.LOGICAL_NOT if known[0] is not None:
            return not known[0]
        case PointwiseOp.LT | PointwiseOp.LE | PointwiseOp.GT | PointwiseOp.GE:
            left, right = (_bounds(body[argument], sizes) for argument in value.args)
            if left is None or right is None:
                return None
            if value.op in (PointwiseOp.GT, PointwiseOp.GE):
                left, right = right, left
            strict = value.op in (PointwiseOp.LT, PointwiseOp.GT)
            if known_at_most(plus(left[1], 1 if strict else 0), right[0]):
                return True
            if known_at_most(plus(right[1], 0 if strict else 1), left[0]):
                return False
    return None


def _bounds(value: Value, sizes: Mapping[str, Size]) -> Bounds | None:
    """The smallest and the largest that an integer can be."""
    if isinstance(value, IndexExpression) and not value.index.values:
        low = high = value.index.offset
        for axis, step in value.index.axes:
            reach = times(step, plus(sizes[axis], -1))
            if is_negative(step):
                low = plus(low, reach)
            elif known_at_most(0, step):
                high = plus(high, reach)
            else:
                return None
        return low, high
    if not isinstance(value, Constant | Scalar) or value.dtype not in (torch.int32, torch.int64):
        return None
    return None if isinstance(value.value, float | bool) else (value.value, value.value)
