"""Building a body by running it: a lowering calls operations on handles, and each call adds one value to the body.

The function runs once. What it leaves behind is the explicit straight line of `ir.Value`; equal values are shared by
construction. A `Handle` is a position in a body together with its dtype; Python's operators work on it, with Python
numbers taking the handle's dtype.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import sympy
import torch

from longhand.capture.graph import Role
from longhand.errors import LoweringError
from longhand.lower.body import (
    AxisSize,
    Constant,
    Index,
    IndexExpression,
    Load,
    Pointwise,
    Reduce,
    Scalar,
    Size,
    Store,
    Value,
    compute_dtype,
    domain_of,
)
from longhand.lower.ops import PointwiseOp, ReduceOp

Number = float | int | bool

_NARROW = (torch.int8, torch.uint8, torch.int16)
_SELECTS = frozenset({PointwiseOp.WHERE, PointwiseOp.MAXIMUM, PointwiseOp.MINIMUM})
# The constant that leaves the other argument as it is; of two bools the other constant decides alone.
_NEUTRAL = {
    PointwiseOp.LOGICAL_AND: True,
    PointwiseOp.LOGICAL_OR: False,
    PointwiseOp.MUL: 1,
    PointwiseOp.ADD: 0,
}
_BOOL_RESULT = frozenset(
    {
        PointwiseOp.EQ,
        PointwiseOp.NE,
        PointwiseOp.LT,
        PointwiseOp.LE,
        PointwiseOp.GT,
        PointwiseOp.GE,
        PointwiseOp.ISNAN,
        PointwiseOp.ISINF,
        PointwiseOp.SIGNBIT,
        PointwiseOp.LOGICAL_AND,
        PointwiseOp.LOGICAL_OR,
        PointwiseOp.LOGICAL_XOR,
        PointwiseOp.LOGICAL_NOT,
    }
)


def converted(value: Number, dtype: torch.dtype) -> Number:
    """A Python number as an element of `dtype`: one that an integer type does not hold wraps, as in eager."""
    if dtype is torch.bool:
        return bool(value)
    if dtype.is_floating_point:
        return float(value)
    limits = torch.iinfo(dtype)
    return (int(value) - limits.min) % (limits.max - limits.min + 1) + limits.min


@dataclasses.dataclass(frozen=True, eq=False)
class Handle:
    """A value of a body under construction."""

    body: BodyBuilder
    position: int
    dtype: torch.dtype

    def __add__(self, other: Handle | Number) -> Handle:
        return self.body.pointwise(PointwiseOp.ADD, self, other)

    def __radd__(self, other: Number) -> Handle:
        return self.body.pointwise(PointwiseOp.ADD, other, self)

    def __sub__(self, other: Handle | Number) -> Handle:
        return self.body.pointwise(PointwiseOp.SUB, self, other)

    def __rsub__(self, other: Number) -> Handle:
        return self.body.pointwise(PointwiseOp.SUB, other, self)

    def __mul__(self, other: Handle | Number) -> Handle:
        return self.body.pointwise(PointwiseOp.MUL, self, other)

    def __rmul__(self, other: Number) -> Handle:
        return self.body.pointwise(PointwiseOp.MUL, other, self)

    def __truediv__(self, other: Handle | Number) -> Handle:
        return self.body.pointwise(PointwiseOp.DIV, self, other)

    def __rtruediv__(self, other: Number) -> Handle:
        return self.body.pointwise(PointwiseOp.DIV, other, self)

    def __neg__(self) -> Handle:
        return self.body.pointwise(PointwiseOp.NEG, self)

    def __lt__(self, other: Handle | Number) -> Handle:
        return self.body.pointwise(PointwiseOp.LT, self, other)

    def __le__(self, other: Handle | Number) -> Handle:
        return self.body.pointwise(PointwiseOp.LE, self, other)

    def __gt__(self, other: Handle | Number) -> Handle:
        return self.body.pointwise(PointwiseOp.GT, self, other)

    def __ge__(self, other: Handle | Number) -> Handle:
        return self.body.pointwise(PointwiseOp.GE, self, other)

    def equals(self, other: Handle | Number) -> Handle:
        """Elementwise ==, as a bool value."""
        return self.body.pointwise(PointwiseOp.EQ, self, other)

    def differs(self, other: Handle | Number) -> Handle:
        """Elementwise !=, as a bool value."""
        return self.body.pointwise(PointwiseOp.NE, self, other)

    def __and__(self, other: Handle) -> Handle:
        return self.body.pointwise(PointwiseOp.LOGICAL_AND, self, other)

    def __or__(self, other: Handle) -> Handle:
        return self.body.pointwise(PointwiseOp.LOGICAL_OR, self, other)

    def __invert__(self) -> Handle:
        return self.body.pointwise(PointwiseOp.LOGICAL_NOT, self)

    def to(self, dtype: torch.dtype) -> Handle:
        """The value converted to a tensor dtype: what a storage in `dtype` would hold, in its compute dtype."""
        return self.body.cast(self, dtype)

    def named(self, name: str | None) -> Handle:
        """The same value, with `name` as its word if it has none yet."""
        self.body.give_name(self, name)
        return self


class BodyBuilder:
    """A body under construction.

    Args:
        origin: The node of the captured graph that the values come from.
    """

    def __init__(self, origin: str = "") -> None:
        self.origin = origin
        self.values: list[Value] = []
        self._known: dict[tuple[Value, str, str | None], int] = {}
        self._domains: list[frozenset[str]] = []
        # Values that are known to lie in the range of a storage dtype: they need no wrapping to it.
        self._fits: dict[int, torch.dtype] = {}

    def load(
        self,
        buffer: str,
        index: Index,
        dtype: torch.dtype,
        mask: Handle | None = None,
        other: Number = 0,
        name: str | None = None,
    ) -> Handle:
        """An element of `buffer`, whose storage dtype is `dtype`; the handle has its compute dtype."""
        position = None if mask is None else mask.position
        return self._fit(self._add(Load(buffer, index, compute_dtype(dtype), position, other), name), dtype)

    def constant(self, value: Number, dtype: torch.dtype, name: str | None = None) -> Handle:
        """A number, converted to the compute dtype of `dtype`; equal ones are one value, with the first's word."""
        handle = self._add(Constant(converted(value, dtype), compute_dtype(dtype)))
        known = self.values[handle.position]
        if name is not None and known.name is None:
            self.values[handle.position] = dataclasses.replace(known, name=name)
        return handle

    def scalar(self, value: float | Size, dtype: torch.dtype, name: str | None = None) -> Handle:
        """A number that the caller passes."""
        return self._add(Scalar(value, compute_dtype(dtype)), name)

    def _number(self, value: Number | sympy.Expr, dtype: torch.dtype) -> Handle:
        """A constant, or what the caller passes where sizes decide it."""
        return self.scalar(value, dtype) if isinstance(value, sympy.Expr) else self.constant(value, dtype)

    def position(self, index: Index, name: str | None = None) -> Handle:
        """An affine expression of the axes, as int64."""
        return self._add(IndexExpression(index), name)

    def axis_size(self, axes: Sequence[str], dtype: torch.dtype, name: str | None = None) -> Handle:
        """The number of elements of some axes together."""
        return self._add(AxisSize(tuple(axes), dtype), name)

    def pointwise(self, op: PointwiseOp, *args: Handle | Number, name: str | None = None) -> Handle:
        """An elementwise operation; Python numbers take the dtype of the handles, which must agree."""
        known = self._simplified(op, args)
        if known is not None:
            return known.named(name)
        handles = [arg for arg in args if isinstance(arg, Handle)]
        if op is PointwiseOp.WHERE:
            branches = [arg for arg in args[1:] if isinstance(arg, Handle)]
            operand_dtype = branches[0].dtype
        else:
            operand_dtype = handles[0].dtype
        converted = [arg if isinstance(arg, Handle) else self._number(arg, operand_dtype) for arg in args]
        checked = converted[1:] if op is PointwiseOp.WHERE else converted
        if any(handle.dtype is not operand_dtype for handle in checked):
            raise LoweringError(f"{op.value} on {[handle.dtype for handle in checked]} in {self.origin}.")
        dtype = torch.bool if op in _BOOL_RESULT else operand_dtype
        result = self._add(Pointwise(op, tuple(handle.position for handle in converted), dtype), name)
        if op in _SELECTS:
            ranges = {self._fits.get(handle.position) for handle in checked}
            common = ranges.pop() if len(ranges) == 1 else None
            if common is not None:
                self._fit(result, common)
        return result

    def _simplified(self, op: PointwiseOp, args: Sequence[Handle | Number]) -> Handle | None:
        """The result where one of two arguments is a constant that decides it or changes nothing (in any type)."""
        neutral = _NEUTRAL.get(op)
        if neutral is None or len(args) != 2:
            return None
        for one, other in ((args[0], args[1]), (args[1], args[0])):
            value = self.values[one.position] if isinstance(one, Handle) else None
            number = value.value if isinstance(value, Constant) else one
            if isinstance(number, Handle) or not isinstance(other, Handle):
                continue
            if op is PointwiseOp.ADD and other.dtype.is_floating_point:
                continue  # -0.0 + 0.0 is 0.0
            if number == neutral:
                return other
            if other.dtype is torch.bool:
                return self.constant(bool(number), torch.bool)
        return None

    def where(self, condition: Handle, if_true: Handle | Number, if_false: Handle | Number) -> Handle:
        """Elementwise choice."""
        return self.pointwise(PointwiseOp.WHERE, condition, if_true, if_false)

    def cast(self, value: Handle, dtype: torch.dtype) -> Handle:
        """Conversion as ``tensor.to(dtype)`` does it; 16-bit floats stay float32 (they round in stores only)."""
        computed = compute_dtype(dtype)
        if dtype in _NARROW:
            if self._fits.get(value.position) is dtype:
                return value
            narrow = None if value.dtype is torch.bool else dtype
            return self._fit(
                self._add(Pointwise(PointwiseOp.CAST, (value.position,), computed, narrow)), dtype
            )
        if value.dtype is computed:
            return value
        return self._add(Pointwise(PointwiseOp.CAST, (value.position,), computed))

    def rounded(self, value: Handle, dtype: torch.dtype) -> Handle:
        """A float32 value as the nearest 16-bit float: for what something is decided by."""
        return self._add(Pointwise(PointwiseOp.CAST, (value.position,), value.dtype, dtype))

    def reduce(self, op: ReduceOp, value: Handle, axes: Sequence[str], name: str | None = None) -> Handle:
        """A reduction over axes; over no axes (all of size 1) it is the value itself, or position 0."""
        arg_op = op in (ReduceOp.ARGMAX, ReduceOp.ARGMIN)
        if not axes:
            return self.constant(0, torch.int64) if arg_op else value.named(name)
        domain = self.domain(value)
        missing = [axis for axis in axes if axis not in domain]
        if missing and op in (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.ANY, ReduceOp.ALL):
            # The value is the same at every position of these axes.
            inner = self.reduce(op, value, [axis for axis in axes if axis in domain])
            if op is ReduceOp.SUM:
                inner = inner * self.axis_size(missing, value.dtype)
            return inner.named(name)
        for axis in missing:
            anywhere = self.position(Index(axes=((axis, 1),))) >= 0
            value = self.where(anywhere, value, self.constant(0, value.dtype))
        dtype = torch.int64 if arg_op else value.dtype
        return self._add(Reduce(op, value.position, tuple(axes), dtype), name)

    def domain(self, handle: Handle) -> frozenset[str]:
        """The axes that a value varies over."""
        return self._domains[handle.position]

    def store(
        self, buffer: str, index: Index, value: Handle, mask: Handle | None = None, *, adds: bool = False
    ) -> None:
        """Writes a value, or adds it to what is there; it is rounded to the buffer's dtype."""
        position = None if mask is None else mask.position
        self._append(Store(buffer, index, value.position, position, origin=self.origin, adds=adds))

    def give_name(self, handle: Handle, name: str | None) -> None:
        """Sets the word of a value that has none."""
        value = self.values[handle.position]
        if name is not None and value.name is None and not isinstance(value, Constant):
            self.values[handle.position] = dataclasses.replace(value, name=name)

    def _fit(self, handle: Handle, dtype: torch.dtype) -> Handle:
        self._fits[handle.position] = dtype
        return handle

    def _append(self, value: Value) -> None:
        self._domains.append(domain_of(value, self._domains))
        self.values.append(value)

    def _add(self, value: Value, name: str | None = None) -> Handle:
        """Appends a value unless an equal one is there. Names and origins tell no values apart, roles of numbers do."""
        # 0.0 == -0.0 == False in Python: keep them apart by their text.
        number = (
            value.value if isinstance(value, Constant) else value.other if isinstance(value, Load) else None
        )
        side = name if isinstance(name, Role) and name.stays_apart and isinstance(value, Scalar) else None
        key = (value, repr(number), side)
        position = self._known.get(key)
        if position is None:
            position = len(self.values)
            self._known[key] = position
            self._append(
                value if value.origin == self.origin else dataclasses.replace(value, origin=self.origin)
            )
        assert not isinstance(value, Store)
        handle = Handle(self, position, value.dtype)
        self.give_name(handle, name)
        return handle
