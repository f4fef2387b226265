"""Whether a mask keeps an access inside its buffer: the mask is computed at the points of the nest and looked at."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from longhand.lower.ir import (
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
    Store,
)

# All points of a nest up to so many are looked at; of a larger one those where some axis begins, ends or is halfway.
_MANY = 512

_PYTHON: Mapping[PointwiseOp, Callable[..., Any]] = {
    PointwiseOp.ADD: operator.add,
    PointwiseOp.SUB: operator.sub,
    PointwiseOp.MUL: operator.mul,
    PointwiseOp.NEG: operator.neg,
    PointwiseOp.EQ: operator.eq,
    PointwiseOp.NE: operator.ne,
    PointwiseOp.LT: operator.lt,
    PointwiseOp.LE: operator.le,
    PointwiseOp.GT: operator.gt,
    PointwiseOp.GE: operator.ge,
    PointwiseOp.LOGICAL_AND: lambda one, other: bool(one) and bool(other),
    PointwiseOp.LOGICAL_OR: lambda one, other: bool(one) or bool(other),
    PointwiseOp.LOGICAL_NOT: operator.not_,
}


def escapes(nest: Nest, access: Load | Store, n_elements: Size) -> int | None:
    """An element outside the buffer that the access touches in spite of its mask, or None where none is found.

    Args:
        nest: Its sizes must be numbers, else nothing is found.
        access: With a mask, and without positions that are data.
        n_elements: Of the buffer.
    """
    assert access.mask is not None
    sizes = {axis.name: axis.size for axis in nest.axes}
    if not isinstance(n_elements, int) or not all(isinstance(size, int) for size in sizes.values()):
        return None
    for point in _points({name: int(size) for name, size in sizes.items()}):
        element = _at(access.index, point)
        if element is None or 0 <= element < n_elements:
            continue
        if _value(nest, access.mask, point, sizes) is True:
            return element
    return None


def _points(sizes: Mapping[str, int]) -> list[dict[str, int]]:
    is_small = math.prod(sizes.values()) <= _MANY
    sides = [
        range(size) if is_small else sorted(at for at in {0, size // 2, size - 1} if at in range(size))
        for size in sizes.values()
    ]
    return [
        dict(zip(sizes, point, strict=True)) for point in itertools.islice(itertools.product(*sides), _MANY)
    ]


def _at(index: Index, point: Mapping[str, int]) -> int | None:
    terms = [index.offset, *(step * point[axis] for axis, step in index.axes)]
    return sum(terms) if all(isinstance(term, int) for term in terms) else None


def _value(nest: Nest, position: int, point: Mapping[str, int], sizes: Mapping[str, Size]) -> Any:
    """A value of the body at a point, or None where data decide it."""
    match nest.body[position]:
        case Constant(value=number) | Scalar(value=number):
            return number
        case IndexExpression(index=index):
            return None if index.values else _at(index, point)
        case AxisSize(axes=axes):
            return math.prod(int(sizes[axis]) for axis in axes)
        case Pointwise(op=op, args=args):
            given = [_value(nest, argument, point, sizes) for argument in args]
            if op is PointwiseOp.LOGICAL_AND and any(value is False for value in given):
                return False
            if op not in _PYTHON or any(value is None for value in given):
                return None
            return _PYTHON[op](*given)
    return None
