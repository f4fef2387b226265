"""A zero times a positive number, or over one, is that zero: the mean of zeros is one, whatever they count.

Sizes are positive, and so may numbers be that the caller passes; of what is loaded nobody knows: 0.0 * inf is NaN.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping

import torch

from longhand.lower.ir import AxisSize, Constant, Pointwise, PointwiseOp, Scalar, Size, Value
from longhand.schedule.sizes import product

Op = PointwiseOp
_WIDE = frozenset({torch.float32, torch.float64})  # in which each size is finite
_ROOTS = frozenset({Op.SQRT, Op.RSQRT})  # of any normal number they are finite and no zero


def without_multiplied_zeros(body: tuple[Value, ...], sizes: Mapping[str, Size]) -> tuple[Value, ...]:
    """The body with such zeros in the place of what they are multiplied to; itself if there are none.

    Args:
        body: Of a nest.
        sizes: Of its axes.
    """
    if not any(map(_is_zero, body)):
        return body
    made = list(body)
    positive: set[int] = set()
    for position, value in enumerate(body):
        if isinstance(value, Pointwise):
            made[position] = _without_zeros(value, made, positive)
        if _is_positive(made[position], positive, sizes):
            positive.add(position)
    return body if all(map(operator.is_, made, body)) else tuple(made)


def _without_zeros(value: Pointwise, body: list[Value], positive: set[int]) -> Value:
    first, last = value.args[0], value.args[-1]
    for zero, number in ((body[first], last), (body[last], first)):
        if number not in positive or not isinstance(zero, Constant) or not _is_zero(zero):
            continue
        if value.op is Op.MUL or (value.op is Op.DIV and number == last):
            return dataclasses.replace(zero, dtype=value.dtype, origin=value.origin)
        if value.op is Op.ADD and isinstance(body[number], Scalar):
            return body[number]
    return value


def _is_zero(value: Value) -> bool:
    return isinstance(value, Constant) and value.dtype in _WIDE and value.value == 0


def _is_positive(value: Value, positive: set[int], sizes: Mapping[str, Size]) -> bool:
    """Whether it is a finite number above zero."""
    if getattr(value, "dtype", None) not in _WIDE:
        return False
    match value:
        case AxisSize(axes=axes):
            return _is_count(product(sizes[axis] for axis in axes))
        case Scalar(value=float() as number, dtype=dtype):
            return torch.finfo(dtype).tiny <= number <= torch.finfo(dtype).max
        case Scalar(value=number):
            return _is_count(number)
        case Pointwise(op=op, args=args):
            return op in _ROOTS and args[0] in positive
    return False


def _is_count(size: Size) -> bool:
    # What data say, an element that became an index, is a symbol, too, and may be negative.
    return size > 0 if isinstance(size, int) else bool(size.is_integer and size.is_positive)
