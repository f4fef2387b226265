"""View ops: each gives a new index map and the words for it. None from a map means that the op has to copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from longhand.lower.body import Size
from longhand.lower.context import Context
from longhand.lower.ir import ViewCall
from longhand.lower.registry import lowers, views
from longhand.lower.sizes import add, as_size, multiply, product, static
from longhand.lower.unsupported import UnsupportedLowering
from longhand.lower.views import TensorView, as_strided

aten = torch.ops.aten


def wrap(dim: int, rank: int) -> int:
    """A dimension counted from the front."""
    return dim + max(rank, 1) if dim < 0 else dim


def wrap_all(dims: Sequence[int], rank: int) -> list[int]:
    """Dimensions counted from the front."""
    return [wrap(dim, rank) for dim in dims]


@views(
    aten.alias.default,
    aten.detach.default,
    aten.lift_fresh.default,
    aten.lift.default,
    aten.contiguous.default,
)
def _same(ctx: Context, x: TensorView, *_: Any) -> TensorView:
    return x


@views(aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten._reshape_alias.default)
@views(aten.flatten.using_ints, aten.unflatten.int, aten.view_as.default)
@views(aten.atleast_1d.default, aten.atleast_2d.default, aten.atleast_3d.default)
def _reshape(ctx: Context, x: TensorView, *_: Any) -> TensorView | None:
    return x.reshape(ctx.result_shape())


@views(aten.transpose.int)
def _transpose(ctx: Context, x: TensorView, first: int, second: int) -> TensorView:
    return x.transpose(wrap(first, x.rank), wrap(second, x.rank))


@views(aten.numpy_T.default)
def _reversed(ctx: Context, x: TensorView) -> TensorView:
    return x.permute(range(x.rank - 1, -1, -1))


@views(aten.t.default, aten.mT.default)
def _t(ctx: Context, x: TensorView) -> TensorView:
    return x.transpose(-2, -1) if x.rank > 1 else x


@views(aten.permute.default)
def _permute(ctx: Context, x: TensorView, order: Sequence[int]) -> TensorView:
    return x.permute(wrap_all(order, x.rank))


@views(aten.movedim.int, aten.movedim.intlist)
def _movedim(ctx: Context, x: TensorView, source: Any, destination: Any) -> TensorView:
    sources = wrap_all([source] if isinstance(source, int) else source, x.rank)
    destinations = wrap_all([destination] if isinstance(destination, int) else destination, x.rank)
    order = [dim for dim in range(x.rank) if dim not in sources]
    for target, dim in sorted(zip(destinations, sources, strict=True)):
        order.insert(target, dim)
    return x.permute(order)


@views(aten.expand.default)
def _expand(ctx: Context, x: TensorView, size: Sequence[Size], implicit: bool) -> TensorView:
    return x.expand(ctx.result_shape())


@views(aten.broadcast_to.default, aten.expand_as.default)
def _broadcast_to(ctx: Context, x: TensorView, *_: Any) -> TensorView:
    return x.expand(ctx.result_shape())


@views(aten.unsqueeze.default)
def _unsqueeze(ctx: Context, x: TensorView, dim: int) -> TensorView:
    return x.insert(dim + x.rank + 1 if dim < 0 else dim)


@views(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
def _squeeze(ctx: Context, x: TensorView, dims: Any = None) -> TensorView:
    chosen = range(x.rank) if dims is None else wrap_all([dims] if isinstance(dims, int) else dims, x.rank)
    for dim in sorted(chosen, reverse=True):
        if dim < x.rank and x.size(dim) == 1:
            x = x.drop(dim)
    return x


@views(aten.select.int)
def _select(ctx: Context, x: TensorView, dim: int, index: Size) -> TensorView | None:
    dim = wrap(dim, x.rank)
    if isinstance(index, int) and index < 0:
        index = add(index, x.size(dim))
    return x.select(dim, index)


@views(aten.slice.Tensor)
def _slice(
    ctx: Context, x: TensorView, dim: int, start: Size | None, end: Size | None, step: int
) -> TensorView | None:
    dim = wrap(dim, x.rank)
    length = ctx.result_shape()[dim]
    return x.narrow(dim, slice_start(x.size(dim), start, length), length, step)


def slice_start(size: Size, start: Size | None, length: Size) -> Size:
    """Where a slice begins: the index wrapped and clamped, as Python does it."""
    begin = 0 if start is None else start
    if isinstance(begin, int) and begin < 0:
        begin = max(size + begin, 0) if isinstance(size, int) else add(size, begin)
    if isinstance(begin, int) and isinstance(size, int):
        return min(begin, size)
    if not isinstance(begin, int) and not begin.is_nonnegative:
        raise UnsupportedLowering("The sign of the slice's start is not known.")
    return begin


@views(aten.narrow.default)
def _narrow(ctx: Context, x: TensorView, dim: int, start: Size, length: Size) -> TensorView | None:
    dim = wrap(dim, x.rank)
    return x.narrow(dim, slice_start(x.size(dim), start, length), length)


@views(aten.diagonal.default)
def _diagonal(ctx: Context, x: TensorView, offset: int, dim1: int, dim2: int) -> TensorView | None:
    first, second = wrap(dim1, x.rank), wrap(dim2, x.rank)
    steps = x.stride_of(first), x.stride_of(second)
    if steps[0] is None or steps[1] is None:
        return None
    start = multiply(steps[1], offset) if offset >= 0 else multiply(steps[0], -offset)
    shape = ctx.result_shape()
    if product(shape) == 0:
        start = 0
    strides = x.strides()
    if strides is None:
        return None
    kept = [strides[dim] for dim in range(x.rank) if dim not in (first, second)]
    return as_strided(x, shape, [*kept, add(steps[0], steps[1])], add(x.offset, start))


@views(aten.unfold.default)
def _unfold(ctx: Context, x: TensorView, dim: int, size: Size, step: Size) -> TensorView | None:
    strides = x.strides()
    if strides is None:
        return None
    dim = wrap(dim, x.rank)
    if x.rank == 0:
        return as_strided(x, ctx.result_shape(), [1], x.offset)
    new = [*strides[:dim], multiply(strides[dim], step), *strides[dim + 1 :], strides[dim]]
    return as_strided(x, ctx.result_shape(), new, x.offset)


@views(aten.as_strided.default)
def _as_strided(
    ctx: Context, x: TensorView, size: Sequence[Size], stride: Sequence[Size], offset: Size | None
) -> TensorView | None:
    base = ctx.node.args[0]
    assert isinstance(base, torch.fx.Node)
    fake = base.meta["val"]
    strides = tuple(as_size(step) for step in fake.stride())
    before = _before(base)
    start = as_size(fake.storage_offset() - before)
    if start == 0:
        x = ctx.as_in_eager(x, fake)
    if x.strides() != strides or x.offset != start:
        raise UnsupportedLowering("as_strided of a tensor whose memory is laid out differently here.")
    return as_strided(x, size, stride, start if offset is None else add(offset, -before))


def _before(node: torch.fx.Node) -> int:
    """How much of an argument's memory lies before it: offsets in eager count it, those of index maps do not."""
    while node.op != "placeholder" and len(node.all_input_nodes) == 1:
        node = node.all_input_nodes[0]
    start = node.meta["val"].storage_offset() if node.op == "placeholder" else 0
    return start if isinstance(start, int) else 0


# --- several views at once ---


def _parts(ctx: Context, x: TensorView, dim: int, lengths: Sequence[Size]) -> tuple[TensorView, ...]:
    dim = wrap(dim, x.rank)
    start: Size = 0
    parts = []
    for number, length in enumerate(lengths):
        end = add(start, length)
        part = x.narrow(dim, start, length)
        if part is None:
            x = ctx.copy(x)
            part = x.narrow(dim, start, length)
            assert part is not None
        parts.append(part.said(x, ViewCall(aten.slice.Tensor, (dim, start, end), _part(ctx, number))))
        start = end
    return tuple(parts)


def _part(ctx: Context, number: int) -> str:
    """The node that takes one part of the node's result."""
    return next((user.name for user in ctx.node.users if user.args[1:] == (number,)), "")


@lowers(aten.split.Tensor, aten.chunk.default)
def _split(ctx: Context, x: TensorView, size: Size, dim: int) -> tuple[TensorView, ...]:
    n_parts = len(ctx.node.meta["val"])
    axis = wrap(dim, x.rank)
    return _parts(ctx, x, dim, [ctx.result_shape(i)[axis] for i in range(n_parts)])


@lowers(aten.split_with_sizes.default, aten.split.sizes)
def _split_with_sizes(ctx: Context, x: TensorView, sizes: Sequence[Size], dim: int) -> tuple[TensorView, ...]:
    return _parts(ctx, x, dim, sizes)


@lowers(aten.broadcast_tensors.default)
def _broadcast_tensors(ctx: Context, tensors: Sequence[TensorView]) -> tuple[TensorView, ...]:
    shape = ctx.result_shape(0)
    return tuple(x.expand(shape).said(x, ViewCall(aten.expand.default, (shape,))) for x in tensors)


@lowers(aten.unbind.int)
def _unbind(ctx: Context, x: TensorView, dim: int) -> tuple[TensorView, ...]:
    dim = wrap(dim, x.rank)
    if x.stride_of(dim) is None:
        x = ctx.copy(x)
    parts = []
    for i in range(static(x.size(dim), "The size of a dimension that is unbound")):
        part = x.select(dim, i)
        assert part is not None
        parts.append(part.said(x, ViewCall(aten.select.int, (dim, i), _part(ctx, i))))
    return tuple(parts)


# --- what is a copy in eager, but an index map to us ---


@views(aten.flip.default)
def _flip(ctx: Context, x: TensorView, dims: Sequence[int]) -> TensorView:
    for dim in wrap_all(dims, x.rank):
        x = x.flip(dim) if x.rank else x
    return x


@views(aten.repeat.default)
def _repeat(ctx: Context, x: TensorView, repeats: Sequence[Size]) -> TensorView | None:
    while x.rank < len(repeats):
        x = x.insert(0)
    shape = x.shape
    if product(repeats) == 0 or product(shape) == 0:
        raise UnsupportedLowering("repeat of nothing.")
    for dim in range(x.rank - 1, -1, -1):
        x = x.insert(dim)
    doubled: list[Size] = []
    for count, size in zip(repeats, shape, strict=True):
        doubled += [count, size]
    return x.expand(doubled).reshape(ctx.result_shape())
