"""The body of a nest: a straight line of typed values in single assignment, each referring to earlier ones by position.

There is no tree of loops: a value's *domain* (the axes it varies over) follows from its arguments, and a `Reduce`
removes axes from it. So the whole of

    softmax = exp(x - max(x)) / sum(exp(x - max(x)))

is one body over (row, col): a load, a reduce over col, a subtraction, an exp, a reduce over col, a division, a store.

An index is affine: an offset and one coefficient per axis (counted in elements of the flat buffer), plus, for gathers,
values times a coefficient. There is no division and no modulo in an index.

Precision: float16 and bfloat16 exist in buffers only. A load of them yields float32, a store rounds. Body values are
bool, int32, int64 (smaller integers are widened in loads and wrapped to their own width by CAST where the result can
overflow), float32 or float64.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

import sympy
import torch

from longhand.capture.graph import Role, nan_equals_itself
from longhand.lower.ops import PointwiseOp, ReduceOp

Size: TypeAlias = int | sympy.Expr


@dataclasses.dataclass(frozen=True)
class Index:
    """An affine position in a flat buffer, in elements.

    position = offset + sum(coefficient * axis) + sum(coefficient * value)

    Attributes:
        offset: The constant part.
        axes: (axis name, coefficient), sorted by name, coefficients not 0. A flip has a negative coefficient.
        values: (position in the body of an int64 value, coefficient): gathers. That value is already wrapped
            (negative indices) and, where eager would raise, guarded by the lowering.
    """

    offset: Size = 0
    axes: tuple[tuple[str, Size], ...] = ()
    values: tuple[tuple[int, Size], ...] = ()


# Of a window that is walked by loops that are unrolled: its places are loads that are on their way at the same time.
MOST_PLACES = 25

# Scalars that say where a piece of a joined or padded dimension ends.
BOUNDARIES = frozenset({Role.HALF, Role.BOUNDARY})


@dataclasses.dataclass(frozen=True)
@nan_equals_itself
class Load:
    """An element of a buffer.

    Attributes:
        mask: Position of a bool value: where it is false nothing is read and the result is `other`.
        other: What a masked-out element yields.
    """

    buffer: str
    index: Index
    dtype: torch.dtype
    mask: int | None = None
    other: float | int | bool = 0
    name: str | None = None
    origin: str = ""


@dataclasses.dataclass(frozen=True)
@nan_equals_itself
class Constant:
    """A number written in the source."""

    value: float | int | bool
    dtype: torch.dtype
    name: str | None = None
    origin: str = ""


@dataclasses.dataclass(frozen=True)
@nan_equals_itself
class Scalar:
    """A number that the caller passes, so that one kernel serves calls that differ in it: ``eps``, a symbolic size."""

    value: float | Size
    dtype: torch.dtype
    name: str | None = None
    origin: str = ""


@dataclasses.dataclass(frozen=True)
class IndexExpression:
    """Where in the iteration space we are, as an integer: an affine expression of axes (arange, tril's row, ...)."""

    index: Index
    dtype: torch.dtype = torch.int64
    name: str | None = None
    origin: str = ""


@dataclasses.dataclass(frozen=True)
class AxisSize:
    """The number of elements of some axes together (the n of a mean), so that kernels are not tied to a size."""

    axes: tuple[str, ...]
    dtype: torch.dtype
    name: str | None = None
    origin: str = ""


@dataclasses.dataclass(frozen=True)
class Pointwise:
    """An elementwise operation on earlier values.

    Attributes:
        narrow: For CAST only: the storage dtype that the value must first be wrapped to (int8, uint8, int16), or
            rounded to (float16, bfloat16, where something is decided by it: schedule/numerics/roundings.py); None where
            `dtype` says it all.
    """

    op: PointwiseOp
    args: tuple[int, ...]
    dtype: torch.dtype
    narrow: torch.dtype | None = None
    name: str | None = None
    origin: str = ""


@dataclasses.dataclass(frozen=True)
class Reduce:
    """A reduction of an earlier value over axes of its domain. Accumulates in `dtype`."""

    op: ReduceOp
    arg: int
    axes: tuple[str, ...]
    dtype: torch.dtype
    name: str | None = None
    origin: str = ""


@dataclasses.dataclass(frozen=True)
class Store:
    """Writes an earlier value, rounded to the buffer's dtype. Its domain is the index's axes.

    A value that varies over fewer axes than the index is broadcast.

    Attributes:
        mask: Position of a bool value: where it is false nothing is written.
        adds: Whether the value is added to what is there, each iteration once and whole, in whatever order. Then its
            index may name an element as often as data say, but varies over every axis of the nest; and the nest
            touches the buffer nowhere else, since what it would find there is unfinished.
        is_at_positions: Whether data say where it writes. Unless it adds, its index still varies over every axis of
            the nest by itself, so that no two iterations write one element, whatever the data are.
    """

    buffer: str
    index: Index
    value: int
    mask: int | None = None
    name: str | None = None
    origin: str = ""
    adds: bool = False

    @property
    def is_at_positions(self) -> bool:
        return self.adds or bool(self.index.values)


# `name` of a value is a word for it or None: the user's local, a text, or its `Role` in a lowering.
# `origin` is the node of the captured graph that it comes from.
Value = Load | Constant | Scalar | IndexExpression | AxisSize | Pointwise | Reduce | Store


def arguments(value: Value) -> tuple[int, ...]:
    """The positions that a value refers to, masks and gather indices included."""
    match value:
        case Load():
            indirect = tuple(position for position, _ in value.index.values)
            return indirect if value.mask is None else (*indirect, value.mask)
        case Pointwise():
            return value.args
        case Reduce():
            return (value.arg,)
        case Store():
            indirect = tuple(position for position, _ in value.index.values)
            return (*indirect, value.value) if value.mask is None else (*indirect, value.value, value.mask)
    return ()


def domain_of(value: Value, earlier: Sequence[frozenset[str]]) -> frozenset[str]:
    """The axes that a value varies over, given those of the values before it in its body."""
    axes: frozenset[str] = frozenset()
    for position in arguments(value):  # most have the same axes: then no set is made
        if not earlier[position] <= axes:
            axes = axes | earlier[position] if axes else earlier[position]
    if isinstance(value, Load | IndexExpression | Store):
        return axes.union(axis for axis, _ in value.index.axes)
    return axes.difference(value.axes) if isinstance(value, Reduce) else axes


def domains(body: tuple[Value, ...]) -> tuple[frozenset[str], ...]:
    """For each value of a body, the axes that it varies over."""
    axes: list[frozenset[str]] = []
    for value in body:
        axes.append(domain_of(value, axes))
    return tuple(axes)


# Floats of buffers only: a store rounds to them, and a CAST that is `narrow` where something is decided by the value.
ROUNDED = frozenset({torch.float16, torch.bfloat16})


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type in which a body computes on elements of a buffer of `dtype`."""
    if dtype in ROUNDED:
        return torch.float32
    if dtype in (torch.int8, torch.uint8, torch.int16):
        return torch.int32
    return dtype
