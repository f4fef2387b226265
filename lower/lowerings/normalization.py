"""Softmax and the norms, written out with the roles of their values: row_max, numerator, mean, rstd, ..."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from longhand.capture.graph import Role
from longhand.lower.body import Size
from longhand.lower.builder import Handle
from longhand.lower.context import Context
from longhand.lower.lowerings.pointwise import apply
from longhand.lower.lowerings.viewing import wrap
from longhand.lower.nest import NestBuilder
from longhand.lower.ops import PointwiseOp, ReduceOp
from longhand.lower.registry import lowers
from longhand.lower.unsupported import UnsupportedLowering, require_loop_dtypes
from longhand.lower.views import TensorView

aten = torch.ops.aten
Op = PointwiseOp


# --- softmax ---


@lowers(aten.softmax.int, aten._softmax.default, aten._safe_softmax.default, aten.special_softmax.default)
def _softmax(ctx: Context, x: TensorView, dim: int, *_: Any) -> TensorView:
    safe = ctx.node.target is aten._safe_softmax.default

    def value(nest: NestBuilder, x: Handle, axes: Sequence[str]) -> Handle:
        row_max = nest.body.reduce(ReduceOp.MAX, x, axes, Role.ROW_MAX)
        numerator = apply(Op.EXP, x - row_max, name=Role.NUMERATOR)
        denominator = nest.body.reduce(ReduceOp.SUM, numerator, axes, Role.DENOMINATOR)
        quotient = numerator / denominator
        if safe:
            # A row that is masked out entirely gives zeros, not NaN.
            return nest.body.where(row_max.equals(-math.inf), 0.0, quotient)
        return quotient

    return _over_rows(ctx, x, dim, value)


@lowers(aten.log_softmax.int, aten._log_softmax.default, aten.special_log_softmax.default)
def _log_softmax(ctx: Context, x: TensorView, dim: int, *_: Any) -> TensorView:
    def value(nest: NestBuilder, x: Handle, axes: Sequence[str]) -> Handle:
        row_max = nest.body.reduce(ReduceOp.MAX, x, axes, Role.ROW_MAX)
        shifted = (x - row_max).named(Role.SHIFTED)
        denominator = nest.body.reduce(ReduceOp.SUM, apply(Op.EXP, shifted), axes, Role.DENOMINATOR)
        return shifted - apply(Op.LOG, denominator, name=Role.LOG_DENOMINATOR)

    return _over_rows(ctx, x, dim, value)


def _over_rows(ctx: Context, x: TensorView, dim: int, value: Any) -> TensorView:
    """A nest whose result has the argument's shape and whose reductions run along one dimension."""
    result = ctx.result()
    require_loop_dtypes(x.dtype, result.dtype)
    nest, (view,) = ctx.nest(x.shape, [x])
    axes = nest.axes([wrap(dim, x.rank)]) if x.rank else ()
    computed = value(nest, nest.load(view).to(result.dtype), axes)
    target = ctx.make_result()
    nest.store(target, computed.named(ctx.local))
    ctx.finish(nest)
    return target


# --- layer norm and RMS norm ---


@lowers(aten.layer_norm.default)
def _layer_norm(
    ctx: Context,
    x: TensorView,
    shape: Sequence[Size],
    weight: TensorView | None,
    bias: TensorView | None,
    eps: float,
    *_: Any,
) -> TensorView:
    (result,) = _layer_norms(ctx, x, shape, weight, bias, eps, with_statistics=False)
    return result


@lowers(aten.native_layer_norm.default)
def _native_layer_norm(
    ctx: Context,
    x: TensorView,
    shape: Sequence[Size],
    weight: TensorView | None,
    bias: TensorView | None,
    eps: float,
) -> tuple[TensorView, ...]:
    return _layer_norms(ctx, x, shape, weight, bias, eps, with_statistics=True)


def _layer_norms(
    ctx: Context,
    x: TensorView,
    shape: Sequence[Size],
    weight: TensorView | None,
    bias: TensorView | None,
    eps: float,
    with_statistics: bool,
) -> tuple[TensorView, ...]:
    position = 0 if with_statistics else None
    if x.is_empty:
        raise UnsupportedLowering("layer_norm of nothing is left to ATen.")
    views = [x, *(view for view in (weight, bias) if view is not None)]
    require_loop_dtypes(*(view.dtype for view in views))
    nest, (x_view, *others) = ctx.nest(x.shape, views)
    dims = list(range(x.rank - len(shape), x.rank))
    value = nest.load(x_view)
    normalized, mean, rstd = normalize(nest, value, nest.axes(dims), eps)
    result = affine(nest, normalized, weight, bias, others)
    target = ctx.make_result(position)
    nest.store(target, result.named(ctx.local))
    results = [target]
    if with_statistics:
        for place, statistic in ((1, mean), (2, rstd)):
            kept = ctx.make_result(place)
            _store_statistic(nest, kept, statistic, x.rank, len(shape))
            results.append(kept)
    ctx.finish(nest)
    return tuple(results)


def _store_statistic(nest: NestBuilder, kept: TensorView, statistic: Handle, rank: int, n_dims: int) -> None:
    """Stores one value for each row; `kept` has size 1 where the row was."""
    view = kept
    for dim in range(rank - 1, rank - n_dims - 1, -1):
        view = view.drop(dim)
    nest.store(view, statistic, range(rank - n_dims))


def mean_of(nest: NestBuilder, value: Handle, axes: Sequence[str], name: str) -> Handle:
    """The mean over axes."""
    if not axes:
        return value
    total = nest.body.reduce(ReduceOp.SUM, value, axes)
    return (total / nest.body.axis_size(axes, value.dtype)).named(name)


def normalize(
    nest: NestBuilder, value: Handle, axes: Sequence[str], eps: float
) -> tuple[Handle, Handle, Handle]:
    """(value - mean) * rstd over axes, with mean and rstd."""
    mean = mean_of(nest, value, axes, Role.MEAN)
    centered = (value - mean).named(Role.CENTERED)
    variance = mean_of(nest, centered * centered, axes, Role.VARIANCE)
    rstd = apply(Op.RSQRT, variance + nest.body.scalar(eps, value.dtype, Role.EPS), name=Role.RSTD)
    return (centered * rstd).named(Role.NORMALIZED), mean, rstd


def affine(
    nest: NestBuilder,
    value: Handle,
    weight: TensorView | None,
    bias: TensorView | None,
    views: Sequence[TensorView],
) -> Handle:
    """value * weight + bias, of which either may be missing; `views` are theirs in the nest, in this order."""
    left = iter(views)
    if weight is not None:
        value = value * nest.load(next(left)).to(value.dtype)
    if bias is not None:
        value = value + nest.load(next(left)).to(value.dtype)
    return value


@lowers(aten.rms_norm.default)
def _rms_norm(
    ctx: Context, x: TensorView, shape: Sequence[Size], weight: TensorView | None, eps: float | None
) -> TensorView:
    (result,) = _rms_norms(ctx, x, shape, weight, eps, with_statistics=False)
    return result


@lowers(aten._fused_rms_norm.default)
def _fused_rms_norm(
    ctx: Context, x: TensorView, shape: Sequence[Size], weight: TensorView | None, eps: float | None
) -> tuple[TensorView, ...]:
    return _rms_norms(ctx, x, shape, weight, eps, with_statistics=True)


def _rms_norms(
    ctx: Context,
    x: TensorView,
    shape: Sequence[Size],
    weight: TensorView | None,
    eps: float | None,
    with_statistics: bool,
) -> tuple[TensorView, ...]:
    views = [x] if weight is None else [x, weight]
    require_loop_dtypes(*(view.dtype for view in views))
    nest, (x_view, *others) = ctx.nest(x.shape, views)
    axes = nest.axes(range(x.rank - len(shape), x.rank))
    value = nest.load(x_view)
    if eps is None:
        # Eager takes the epsilon of the type it computes in: float32 for 16-bit floats.
        eps = torch.finfo(value.dtype).eps
    normalized, rstd = rms_normalize(nest, value, axes, eps)
    result = affine(nest, normalized, weight, None, others)
    target = ctx.make_result(0 if with_statistics else None)
    nest.store(target, result.named(ctx.local))
    if not with_statistics:
        ctx.finish(nest)
        return (target,)
    kept = ctx.make_result(1)
    _store_statistic(nest, kept, rstd, x.rank, len(shape))
    ctx.finish(nest)
    return target, kept


def rms_normalize(nest: NestBuilder, value: Handle, axes: Sequence[str], eps: float) -> tuple[Handle, Handle]:
    """value * rstd over axes, with rstd."""
    mean_square = mean_of(nest, value * value, axes, Role.MEAN_SQUARE)
    rstd = apply(Op.RSQRT, mean_square + nest.body.scalar(eps, value.dtype, Role.EPS), name=Role.RSTD)
    return (value * rstd).named(Role.NORMALIZED), rstd


# --- batch norm ---


def per_channel(x: TensorView, view: TensorView) -> TensorView:
    """A vector over channels (dimension 1 of x), broadcastable to x."""
    for _ in range(x.rank - 2):
        view = view.insert(view.rank)
    return view


@lowers(aten._native_batch_norm_legit_no_training.default)
def _batch_norm_eval(
    ctx: Context,
    x: TensorView,
    weight: TensorView | None,
    bias: TensorView | None,
    running_mean: TensorView,
    running_var: TensorView,
    momentum: float,
    eps: float,
) -> tuple[TensorView, TensorView, TensorView]:
    target = _normalize_by_running(ctx, x, weight, bias, running_mean, running_var, eps, 0)
    # In evaluation the statistics that a backward would want are empty.
    return target, ctx.make_result(1), ctx.make_result(2)


@lowers(aten.batch_norm.default)
def _batch_norm(
    ctx: Context,
    x: TensorView,
    weight: TensorView | None,
    bias: TensorView | None,
    running_mean: TensorView | None,
    running_var: TensorView | None,
    training: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> TensorView:
    if training or running_mean is None or running_var is None:
        raise UnsupportedLowering("batch_norm by the batch's own statistics is left to ATen.")
    return _normalize_by_running(ctx, x, weight, bias, running_mean, running_var, eps, None)


def _normalize_by_running(
    ctx: Context,
    x: TensorView,
    weight: TensorView | None,
    bias: TensorView | None,
    running_mean: TensorView,
    running_var: TensorView,
    eps: float,
    position: int | None,
) -> TensorView:
    vectors = [running_mean, running_var, *(view for view in (weight, bias) if view is not None)]
    views = [x, *(per_channel(x, view) for view in vectors)]
    require_loop_dtypes(*(view.dtype for view in views))
    nest, (x_view, mean_view, var_view, *others) = ctx.nest(x.shape, views)
    value = nest.load(x_view)
    mean = nest.load(mean_view, name=Role.RUNNING_MEAN).to(value.dtype)
    variance = nest.load(var_view, name=Role.RUNNING_VAR).to(value.dtype)
    rstd = apply(Op.RSQRT, variance + nest.body.scalar(eps, value.dtype, Role.EPS), name=Role.RSTD)
    normalized = ((value - mean) * rstd).named(Role.NORMALIZED)
    result = affine(nest, normalized, weight, bias, others)
    target = ctx.make_result(position, like=[x])
    nest.store(target, result.named(ctx.local))
    ctx.finish(nest)
    return target
