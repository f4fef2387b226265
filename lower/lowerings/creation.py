"""Tensors out of nothing but numbers and positions: full, arange, eye, linspace, and the triangles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from longhand.lower.body import Size
from longhand.lower.builder import Handle, Number
from longhand.lower.context import Context, number
from longhand.lower.nest import NestBuilder
from longhand.lower.program_builder import DeferredProducer
from longhand.lower.registry import lowers
from longhand.lower.unsupported import UnsupportedLowering, require_loop_dtypes
from longhand.lower.views import TensorView

aten = torch.ops.aten


def generated(ctx: Context, value: Callable[[NestBuilder], Handle]) -> TensorView:
    """A nest over the result that reads nothing."""
    dtype = ctx.result().dtype
    require_loop_dtypes(dtype)
    target = ctx.make_result()
    nest, _ = ctx.nest(target.shape)
    nest.store(target, value(nest).to(dtype).named(ctx.local))
    ctx.finish(nest)
    return target


@lowers(aten.full.default)
def _full(ctx: Context, size: Sequence[Size], value: Number | sympy.Expr, *_: Any) -> TensorView:
    return filled(ctx, value)


@lowers(aten.full_like.default)
def _full_like(ctx: Context, x: TensorView, value: Number | sympy.Expr, *_: Any) -> TensorView:
    return filled(ctx, value)


@lowers(aten.new_full.default)
def _new_full(
    ctx: Context, x: TensorView, size: Sequence[Size], value: Number | sympy.Expr, *_: Any
) -> TensorView:
    return filled(ctx, value)


@lowers(aten.scalar_tensor.default)
def _scalar_tensor(ctx: Context, value: Number | sympy.Expr, *_: Any) -> TensorView:
    return filled(ctx, value)


@lowers(aten.fill.Scalar)
def _fill(ctx: Context, x: TensorView, value: Number | sympy.Expr) -> TensorView:
    return filled(ctx, value)


@lowers(aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default)
def _zeros(ctx: Context, *_: Any) -> TensorView:
    return filled(ctx, 0)


@lowers(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def _ones(ctx: Context, *_: Any) -> TensorView:
    return filled(ctx, 1)


def filled(ctx: Context, value: Number | sympy.Expr) -> TensorView:
    """The node's result, the same number everywhere."""
    dtype = ctx.result().dtype
    if not isinstance(value, int | float | sympy.Expr):
        raise UnsupportedLowering("Filling with a complex number is left to ATen.")

    def compute(nest: NestBuilder, _: list[Handle]) -> Handle:
        return number(nest, value, dtype)

    target = generated(ctx, lambda nest: compute(nest, []))
    ctx.deferred_producers[target.buffer] = DeferredProducer((), compute)
    # As it is in memory: rounded to the dtype.
    ctx.fills[target.buffer] = (
        value if isinstance(value, sympy.Expr) else torch.tensor(value, dtype=dtype).item()
    )
    return target


@lowers(aten.arange.default)
def _arange(ctx: Context, end: Any, *_: Any) -> TensorView:
    return _arithmetic(ctx, 0, 1)


@lowers(aten.arange.start)
def _arange_start(ctx: Context, start: Any, end: Any, *_: Any) -> TensorView:
    return _arithmetic(ctx, start, 1)


@lowers(aten.arange.start_step)
def _arange_step(ctx: Context, start: Any, end: Any, step: Any, *_: Any) -> TensorView:
    return _arithmetic(ctx, start, step)


def _arithmetic(ctx: Context, start: Any, step: Any) -> TensorView:
    """start, start + step, start + 2 step, ..."""
    dtype = ctx.result().dtype
    is_whole = isinstance(start, int | sympy.Expr) and isinstance(step, int | sympy.Expr)

    def value(nest: NestBuilder) -> Handle:
        if is_whole:
            return nest.position_of(nest.coordinate(0).times(step).plus(start))
        return nest.position(0).to(dtype) * number(nest, step, dtype) + number(nest, start, dtype)

    target = generated(ctx, value)
    if is_whole and dtype in (torch.int64, torch.int32):
        ctx.progressions[target.buffer] = (start, step)
    return target


@lowers(aten.linspace.default)
def _linspace(ctx: Context, start: Number, end: Number, steps: int, *_: Any) -> TensorView:
    dtype = ctx.result().dtype
    if dtype not in (torch.float32, torch.float64) or steps < 2:
        # Eager rounds the step to the dtype.
        raise UnsupportedLowering("linspace of integers and 16-bit floats is left to ATen.")
    step = (float(end) - float(start)) / (steps - 1)

    def value(nest: NestBuilder) -> Handle:
        # From the nearer end, as eager does it, so that the last value is exact.
        i = nest.position(0)
        up = i.to(dtype) * step + float(start)
        down = float(end) - (nest.size(steps - 1) - i).to(dtype) * step
        return nest.body.where(i < nest.size(steps // 2), up, down)

    return generated(ctx, value)


@lowers(aten.eye.default, aten.eye.m)
def _eye(ctx: Context, *_: Any) -> TensorView:
    return generated(ctx, lambda nest: nest.position(0).equals(nest.position(1)))


def below_diagonal(nest: NestBuilder, rank: int, diagonal: Size) -> Handle:
    """Whether col - row <= diagonal in the last two dimensions."""
    row = nest.coordinate(rank - 2).plus(diagonal)
    return nest.position(rank - 1) <= nest.position_of(row)


@lowers(aten.tril.default)
def _tril(ctx: Context, x: TensorView, diagonal: Size) -> TensorView:
    return _triangle(ctx, x, lambda nest: below_diagonal(nest, x.rank, diagonal))


@lowers(aten.triu.default)
def _triu(ctx: Context, x: TensorView, diagonal: Size) -> TensorView:
    def above(nest: NestBuilder) -> Handle:
        row = nest.coordinate(x.rank - 2).plus(diagonal)
        return nest.position(x.rank - 1) >= nest.position_of(row)

    return _triangle(ctx, x, above)


def _triangle(ctx: Context, x: TensorView, keeps: Callable[[NestBuilder], Handle]) -> TensorView:
    require_loop_dtypes(x.dtype)
    nest, (view,) = ctx.nest(x.shape, [x])
    value = nest.load(view)
    zero = nest.body.constant(0, x.dtype)
    target = ctx.make_result()
    nest.store(target, nest.body.where(keeps(nest), value, zero).named(ctx.local))
    ctx.finish(nest)
    return target
