"""Reductions: sum, mean, prod, max, min and their positions, any, all, var, std, norms, logsumexp."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from longhand.capture.graph import Role
from longhand.errors import CaptureError
from longhand.lower.builder import Handle, Number
from longhand.lower.context import Context
from longhand.lower.lowerings.arithmetic import power
from longhand.lower.lowerings.piecewise import RowPieces, row_pieces
from longhand.lower.lowerings.pointwise import apply
from longhand.lower.lowerings.viewing import wrap_all
from longhand.lower.nest import NestBuilder
from longhand.lower.ops import PointwiseOp, ReduceOp
from longhand.lower.registry import lowers
from longhand.lower.sizes import product
from longhand.lower.unsupported import UnsupportedLowering, require_loop_dtypes
from longhand.lower.views import TensorView

aten = torch.ops.aten
Op = PointwiseOp

# The value of one result from the element and the axes that are reduced.
Finish = Callable[["ReductionNest"], Handle]


class ReductionNest:
    """A reduction under construction: the nest over the argument's shape, and which of its axes go away.

    Attributes:
        nest: The iteration space.
        dims: The dimensions that are reduced.
        axes: Their axes.
    """

    def __init__(self, ctx: Context, x: TensorView, dims: Sequence[int] | None) -> None:
        chosen = range(x.rank) if not dims else wrap_all(dims, x.rank)
        self.ctx = ctx
        self.dims = [dim for dim in chosen if x.rank]
        self.nest: NestBuilder
        self.nest, (self.view,) = ctx.nest(x.shape, [x])
        self.axes = self.nest.axes(sorted(self.dims))
        if any(self.nest.shape[dim] == 0 for dim in self.dims):
            # Loops without a turn would leave the result as it is in memory.
            raise UnsupportedLowering("The reduction of nothing is left to ATen.")

    def load(self, dtype: torch.dtype) -> Handle:
        """The element, converted."""
        return self.nest.load(self.view).to(dtype)

    def reduce(self, op: ReduceOp, value: Handle, name: str | None = None) -> Handle:
        """The reduction of a value over the axes."""
        return self.nest.body.reduce(op, value, self.axes, name)

    def sum(self, value: Handle, name: str | None = None) -> Handle:
        """The sum over the axes."""
        return self.reduce(ReduceOp.SUM, value, name)

    def count(self, dtype: torch.dtype) -> Handle:
        """The number of elements reduced."""
        if not self.axes:
            return self.nest.body.constant(1, dtype)
        return self.nest.body.axis_size(self.axes, dtype)

    def mean(self, value: Handle, name: str | None = None) -> Handle:
        """The mean over the axes."""
        if not self.axes:
            return value
        return (self.sum(value) / self.count(value.dtype)).named(name)

    def variance(
        self, value: Handle, correction: Number, mean: Handle, name: str | None = Role.VARIANCE
    ) -> Handle:
        """The mean squared deviation from `mean`, over the count less `correction`."""
        deviation = value - mean
        total = self.sum(deviation * deviation)
        if correction == 0:
            return (total / self.count(value.dtype)).named(name)
        count = self.count(value.dtype) - float(correction)
        size = product(self.nest.shape[dim] for dim in self.dims)
        if not isinstance(size, int) or size < correction:
            count = apply(Op.MAXIMUM, count, 0)
        return (total / count).named(name)

    def store(self, value: Handle, position: int | None = None) -> TensorView:
        """Stores a value of the remaining axes as the node's result."""
        target = self.ctx.make_result(position)
        keeps = target.rank == self.nest.rank
        remaining = [dim for dim in range(self.nest.rank) if dim not in self.dims]
        view = target
        if keeps:
            for dim in sorted(self.dims, reverse=True):
                view = view.drop(dim)
        self.nest.store(view, value, remaining)
        return target


def reduced(
    ctx: Context, x: TensorView, dims: Sequence[int] | None, finish: Finish, *operands: torch.dtype
) -> TensorView:
    """A nest with one reduction (or several) and one result."""
    require_loop_dtypes(x.dtype, ctx.result().dtype, *operands)
    reduction = ReductionNest(ctx, x, dims)
    value = finish(reduction)
    target = reduction.store(value.to(ctx.result().dtype).named(ctx.local))
    ctx.finish(reduction.nest)
    return target


@lowers(aten.sum.default, aten.sum.dim_IntList)
def _sum(ctx: Context, x: TensorView, *rest: Any) -> TensorView:
    dims = rest[0] if ctx.node.target is aten.sum.dim_IntList else None
    dtype = ctx.result().dtype
    return reduced(ctx, x, dims, lambda r: r.sum(r.load(dtype)))


@lowers(aten.mean.default, aten.mean.dim)
def _mean(ctx: Context, x: TensorView, *rest: Any) -> TensorView:
    dims = rest[0] if ctx.node.target is aten.mean.dim else None
    dtype = ctx.result().dtype
    return reduced(ctx, x, dims, lambda r: r.mean(r.load(dtype)))


@lowers(aten.prod.default, aten.prod.dim_int)
def _prod(ctx: Context, x: TensorView, *rest: Any) -> TensorView:
    dims = [rest[0]] if ctx.node.target is aten.prod.dim_int else None
    dtype = ctx.result().dtype
    return reduced(ctx, x, dims, lambda r: r.reduce(ReduceOp.PROD, r.load(dtype)))


@lowers(aten.amax.default, aten.max.default, aten.amin.default, aten.min.default)
def _extreme(ctx: Context, x: TensorView, dims: Sequence[int] | None = None, *_: Any) -> TensorView:
    op = ReduceOp.MAX if ctx.node.target in (aten.amax.default, aten.max.default) else ReduceOp.MIN
    return reduced(ctx, x, dims, lambda r: _extreme_of(r, op, x.dtype))


def _extreme_of(reduction: ReductionNest, op: ReduceOp, dtype: torch.dtype) -> Handle:
    value = reduction.load(dtype)
    if value.dtype is torch.bool:
        op = ReduceOp.ANY if op is ReduceOp.MAX else ReduceOp.ALL
    return reduction.reduce(op, value)


@lowers(aten.argmax.default, aten.argmin.default)
def _position(ctx: Context, x: TensorView, dim: int | None, keepdim: bool) -> TensorView:
    op = ReduceOp.ARGMAX if ctx.node.target is aten.argmax.default else ReduceOp.ARGMIN
    return reduced(ctx, x, None if dim is None else [dim], lambda r: _position_of(r, op, x.dtype))


def _position_of(reduction: ReductionNest, op: ReduceOp, dtype: torch.dtype) -> Handle:
    value = reduction.load(dtype)
    if value.dtype is torch.bool:
        value = value.to(torch.int32)
    return reduction.reduce(op, value)


@lowers(aten.max.dim, aten.min.dim)
def _extreme_with_position(
    ctx: Context, x: TensorView, dim: int, keepdim: bool
) -> tuple[TensorView, TensorView]:
    require_loop_dtypes(x.dtype)
    is_max = ctx.node.target is aten.max.dim
    reduction = ReductionNest(ctx, x, [dim])
    value = _extreme_of(reduction, ReduceOp.MAX if is_max else ReduceOp.MIN, x.dtype)
    position = _position_of(reduction, ReduceOp.ARGMAX if is_max else ReduceOp.ARGMIN, x.dtype)
    results = reduction.store(value.to(x.dtype), 0), reduction.store(position, 1)
    ctx.finish(reduction.nest)
    return results


@lowers(aten.any.default, aten.any.dim, aten.any.dims, aten.all.default, aten.all.dim, aten.all.dims)
def _any_all(ctx: Context, x: TensorView, dims: Any = None, *_: Any) -> TensorView:
    op = ReduceOp.ANY if ctx.node.target.overloadpacket is aten.any else ReduceOp.ALL  # type: ignore[union-attr]
    chosen = [dims] if isinstance(dims, int) else dims
    return reduced(ctx, x, chosen, lambda r: r.reduce(op, r.load(torch.bool)))


@lowers(aten.count_nonzero.default, aten.count_nonzero.dim_IntList)
def _count_nonzero(ctx: Context, x: TensorView, dims: Any = None) -> TensorView:
    chosen = [dims] if isinstance(dims, int) else dims
    return reduced(ctx, x, chosen, lambda r: r.sum(r.load(torch.bool).to(torch.int64)))


# --- variance ---


def _variance_arguments(ctx: Context, rest: Sequence[Any]) -> tuple[Sequence[int] | None, Number]:
    overload = ctx.node.target._overloadname  # type: ignore[union-attr]
    if overload == "correction":
        dims, correction = rest[0], rest[1]
        return dims, 1 if correction is None else correction
    if overload == "dim":
        return rest[0], int(rest[1])
    return None, int(rest[0])


@lowers(
    aten.var.correction, aten.var.dim, aten.var.default, aten.std.correction, aten.std.dim, aten.std.default
)
def _var(ctx: Context, x: TensorView, *rest: Any) -> TensorView:
    dims, correction = _variance_arguments(ctx, rest)
    is_std = ctx.node.target.overloadpacket is aten.std  # type: ignore[union-attr]

    def finish(reduction: ReductionNest) -> Handle:
        value = reduction.load(x.dtype)
        variance = reduction.variance(value, correction, reduction.mean(value, Role.MEAN))
        return apply(Op.SQRT, variance) if is_std else variance

    return reduced(ctx, x, dims, finish)


@lowers(aten.var_mean.correction, aten.var_mean.dim, aten.var_mean.default)
@lowers(aten.std_mean.correction, aten.std_mean.dim, aten.std_mean.default)
def _var_mean(ctx: Context, x: TensorView, *rest: Any) -> tuple[TensorView, TensorView]:
    require_loop_dtypes(x.dtype)
    dims, correction = _variance_arguments(ctx, rest)
    is_std = ctx.node.target.overloadpacket is aten.std_mean  # type: ignore[union-attr]
    within = sorted(wrap_all(dims, x.rank)) if dims and x.rank else range(x.rank)
    pieces = row_pieces(ctx, x, within, ctx.result_name(1))
    if pieces is not None:
        return _var_mean_of_pieces(ctx, pieces, within, correction, is_std)
    reduction = ReductionNest(ctx, x, dims)
    value = reduction.load(x.dtype)
    mean = reduction.mean(value, Role.MEAN)
    spread = reduction.variance(value, correction, mean)
    if is_std:
        spread = apply(Op.SQRT, spread)
    results = reduction.store(spread, 0), reduction.store(mean, 1)
    ctx.finish(reduction.nest)
    return results


def _var_mean_of_pieces(
    ctx: Context, pieces: RowPieces, within: Sequence[int], correction: Number, is_std: bool
) -> tuple[TensorView, TensorView]:
    nest = pieces.nest(ctx)
    mean, squares, count = pieces.statistics(nest)
    spread = (squares / (count - float(correction) if correction else count)).named(Role.VARIANCE)
    targets = []
    for place, statistic in enumerate((apply(Op.SQRT, spread) if is_std else spread, mean)):
        target = ctx.make_result(place)
        view = target
        if target.rank >= nest.rank and within:  # dimensions that were reduced are kept
            for dim in reversed(within):
                view = view.drop(dim)
        nest.store(view, statistic, range(nest.rank - 1))
        targets.append(target)
    ctx.finish(nest)
    return targets[0], targets[1]


# --- norms and logsumexp ---


@lowers(aten.linalg_vector_norm.default)
def _vector_norm(
    ctx: Context, x: TensorView, order: Number, dims: Any, keepdim: bool = False, *_: Any
) -> TensorView:
    return _norm(ctx, x, order, dims, keepdim)


@lowers(aten.norm.Scalar, aten.norm.ScalarOpt_dim)
def _p_norm(
    ctx: Context,
    x: TensorView,
    order: Number | None = 2,
    dims: Any = None,
    keepdim: bool = False,
    *_: Any,
) -> TensorView:
    return _norm(ctx, x, 2 if order is None else order, dims, keepdim)


def _norm(ctx: Context, x: TensorView, order: Number, dims: Any, keepdim: bool) -> TensorView:
    chosen = [dims] if isinstance(dims, int) else dims
    dtype = ctx.result().dtype
    n_reduced = min(len(chosen) if chosen else len(x.shape), len(x.shape))  # a number has a dimension 0, too
    if len(ctx.result().shape) != len(x.shape) - (0 if keepdim else n_reduced):
        raise CaptureError(  # before 2.12 its fake tensors keep a dimension of size 1 that is counted from the end
            "torch expects another shape of this norm than eager gives it.",
            hint="Count its dimension from the front: dim=0 instead of dim=-1.",
        )

    def finish(reduction: ReductionNest) -> Handle:
        value = reduction.load(dtype)
        size = apply(Op.ABS, value)
        if order in (math.inf, -math.inf):
            return reduction.reduce(ReduceOp.MAX if order > 0 else ReduceOp.MIN, size)
        if order == 0:
            return reduction.sum(value.differs(0).to(dtype))
        if order == 1 or not reduction.axes:  # a power of one element may leave the range of its type
            return reduction.sum(size)
        if order == 2:
            return apply(Op.SQRT, reduction.sum(value * value, Role.SUM_OF_SQUARES))
        return power(reduction.sum(power(size, order)), 1.0 / float(order))

    return reduced(ctx, x, chosen, finish)


@lowers(aten.logsumexp.default)
def _logsumexp(ctx: Context, x: TensorView, dims: Sequence[int], keepdim: bool) -> TensorView:
    dtype = ctx.result().dtype

    def finish(reduction: ReductionNest) -> Handle:
        value = reduction.load(dtype)
        row_max = reduction.reduce(ReduceOp.MAX, value, Role.ROW_MAX)
        # A row of infinities: infinity less infinity is NaN, so the shift is 0 there.
        shift = row_max.body.where(apply(Op.ABS, row_max).equals(math.inf), 0.0, row_max).named(Role.SHIFT)
        total = reduction.sum(apply(Op.EXP, value - shift), Role.DENOMINATOR)
        return apply(Op.LOG, total) + shift

    return reduced(ctx, x, dims, finish)
