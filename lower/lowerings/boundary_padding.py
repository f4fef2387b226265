"""Padding that repeats the border or mirrors at it, and rolls over several dimensions: every element is read at a
position computed from its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from longhand.capture.graph import Role
from longhand.lower.body import Size
from longhand.lower.builder import Handle
from longhand.lower.context import Context
from longhand.lower.lowerings.pointwise import apply
from longhand.lower.nest import Coordinate, NestBuilder
from longhand.lower.ops import PointwiseOp
from longhand.lower.registry import lowers
from longhand.lower.sizes import add
from longhand.lower.unsupported import UnsupportedLowering, require_loop_dtypes
from longhand.lower.views import TensorView

aten = torch.ops.aten
Op = PointwiseOp

# Where a position outside of 0 ... last lands; both are values of the body.
Fold = Callable[[Handle, Handle], Handle]


@lowers(aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default)
def _replicate(ctx: Context, x: TensorView, pad: Sequence[Size]) -> TensorView:
    def clamped(position: Handle, last: Handle) -> Handle:
        return apply(Op.MINIMUM, apply(Op.MAXIMUM, position, 0), last)

    return _folded(ctx, x, pad, clamped)


@lowers(aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default)
def _reflect(ctx: Context, x: TensorView, pad: Sequence[Size]) -> TensorView:
    def mirrored(position: Handle, last: Handle) -> Handle:
        return last - apply(Op.ABS, last - apply(Op.ABS, position))

    return _folded(ctx, x, pad, mirrored)


def _folded(ctx: Context, x: TensorView, pad: Sequence[Size], fold: Fold) -> TensorView:
    """The result read from x at folded positions in its last len(pad) / 2 dimensions."""
    require_loop_dtypes(x.dtype)
    if x.is_empty:
        raise UnsupportedLowering("Padding nothing is left to ATen.")
    x = ctx.strided(x)
    target = ctx.make_result(like=[x])
    nest, _ = ctx.nest(target.shape)
    coordinates: list[Coordinate] = []
    for dim in range(x.rank):
        from_end = x.rank - 1 - dim
        before: Size = pad[2 * from_end] if 2 * from_end < len(pad) else 0
        unpadded = 2 * from_end >= len(pad) or (before == 0 and pad[2 * from_end + 1] == 0)
        coordinates.append(nest.coordinate(dim) if unpadded else _fold(nest, x, dim, before, fold))
    nest.store(target, nest.load_at(x, coordinates).named(ctx.local))
    ctx.finish(nest)
    return target


def _fold(nest: NestBuilder, x: TensorView, dim: int, before: Size, fold: Fold) -> Coordinate:
    position = nest.position(dim) - nest.body.scalar(before, torch.int64, Role.PADDING)
    last = nest.body.scalar(add(x.size(dim), -1), torch.int64, Role.LAST)
    return Coordinate(values=((fold(position, last).position, 1),))


def rolled(ctx: Context, x: TensorView, shifts: Mapping[int, Size]) -> TensorView:
    """The node's result: x rolled along some dimensions, each by its shift."""
    require_loop_dtypes(x.dtype)
    x = ctx.strided(x)
    target = ctx.make_result(like=[x])
    nest, _ = ctx.nest(target.shape)
    coordinates = [
        _unroll(nest, x, dim, shifts[dim]) if dim in shifts else nest.coordinate(dim) for dim in range(x.rank)
    ]
    nest.store(target, nest.load_at(x, coordinates).named(ctx.local))
    ctx.finish(nest)
    return target


def _unroll(nest: NestBuilder, x: TensorView, dim: int, shift: Size) -> Coordinate:
    size = x.size(dim)
    if not isinstance(size, int) or not isinstance(shift, int):
        raise UnsupportedLowering("roll by a symbolic size is left to ATen.")
    if shift % size == 0:
        return nest.coordinate(dim)
    by = nest.body.scalar(shift % size, torch.int64, Role.SHIFT)
    length = nest.body.scalar(size, torch.int64, Role.LENGTH)
    position = nest.position(dim) - by
    source = nest.body.where(position < 0, position + length, position)
    return Coordinate(values=((source.position, 1),))
