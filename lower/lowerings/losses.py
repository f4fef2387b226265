"""Losses between two tensors: one value per element, and where it is asked for, one reduction over them all."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

import torch

from longhand.capture.graph import Role
from longhand.lower.builder import Handle
from longhand.lower.context import Context, Operand
from longhand.lower.lowerings.activations import clamp, where
from longhand.lower.lowerings.pointwise import apply
from longhand.lower.ops import PointwiseOp, ReduceOp
from longhand.lower.registry import lowers
from longhand.lower.unsupported import UnsupportedLowering, require_loop_dtypes
from longhand.lower.views import TensorView

aten = torch.ops.aten
Op = PointwiseOp


class LossReduction(enum.IntEnum):
    """torch's codes for a loss's reduction argument."""

    NONE = 0
    MEAN = 1
    SUM = 2


def _elementwise(
    ctx: Context, operands: Sequence[Operand], loss: Callable[..., Handle], reduction: int
) -> TensorView:
    """loss(operands), reduced as asked: one nest either way."""
    if reduction == LossReduction.NONE:
        return ctx.pointwise(operands, loss)
    dtype = ctx.result().dtype
    tensors = [operand for operand in operands if isinstance(operand, TensorView)]
    require_loop_dtypes(dtype, *(view.dtype for view in tensors))
    shape = max((view.shape for view in tensors), key=len)
    if any(view.shape != shape or view.is_empty for view in tensors[:2]):
        raise UnsupportedLowering(
            "A loss of nothing, or between tensors of different shapes, is left to ATen."
        )
    nest, views = ctx.nest(shape, tensors)
    values = [nest.load(view).to(dtype) for view in views]
    total = nest.body.reduce(ReduceOp.SUM, loss(*values), nest.axes(), Role.TOTAL)
    if reduction == LossReduction.MEAN:
        count = (
            nest.body.axis_size(nest.axes(), total.dtype)
            if nest.axes()
            else nest.body.constant(1, total.dtype)
        )
        total = total / count
    target = ctx.make_result()
    nest.store(target, total.named(ctx.local), [])
    ctx.finish(nest)
    return target


@lowers(aten.mse_loss.default)
def _mse(ctx: Context, x: TensorView, target: TensorView, reduction: int) -> TensorView:
    return _elementwise(ctx, [x, target], lambda x, y: apply(Op.MUL, x - y, x - y), reduction)


@lowers(aten.l1_loss.default)
def _l1(ctx: Context, x: TensorView, target: TensorView, reduction: int) -> TensorView:
    return _elementwise(ctx, [x, target], lambda x, y: apply(Op.ABS, x - y), reduction)


@lowers(aten.smooth_l1_loss.default)
def _smooth_l1(ctx: Context, x: TensorView, target: TensorView, reduction: int, beta: float) -> TensorView:
    def loss(x: Handle, y: Handle) -> Handle:
        distance = apply(Op.ABS, x - y)
        if beta == 0:
            return distance
        return where(distance < beta, distance * distance * (0.5 / beta), distance - 0.5 * beta)

    return _elementwise(ctx, [x, target], loss, reduction)


@lowers(aten.huber_loss.default)
def _huber(ctx: Context, x: TensorView, target: TensorView, reduction: int, delta: float) -> TensorView:
    def loss(x: Handle, y: Handle) -> Handle:
        distance = apply(Op.ABS, x - y)
        return where(distance <= delta, distance * distance * 0.5, (distance - 0.5 * delta) * delta)

    return _elementwise(ctx, [x, target], loss, reduction)


@lowers(aten.binary_cross_entropy.default)
def _bce(
    ctx: Context, x: TensorView, target: TensorView, weight: TensorView | None, reduction: int
) -> TensorView:
    def loss(x: Handle, y: Handle, *weight: Handle) -> Handle:
        # Eager keeps both logarithms above -100.
        yes = clamp(apply(Op.LOG, x), -100.0, None)
        no = clamp(apply(Op.LOG1P, -x), -100.0, None)
        value = (y - 1.0) * no - y * yes
        return value * weight[0] if weight else value

    return _elementwise(ctx, [x, target, *_present(weight)], loss, reduction)


@lowers(aten.binary_cross_entropy_with_logits.default)
def _bce_with_logits(
    ctx: Context,
    x: TensorView,
    target: TensorView,
    weight: TensorView | None,
    pos_weight: TensorView | None,
    reduction: int,
) -> TensorView:
    def loss(x: Handle, y: Handle, *weights: Handle) -> Handle:
        left = list(weights)
        scale = left.pop(0) if weight is not None else None
        log_sigmoid = apply(Op.MINIMUM, x, 0) - apply(Op.LOG1P, apply(Op.EXP, -apply(Op.ABS, x)))
        if pos_weight is not None:
            log_sigmoid = log_sigmoid * ((left[0] - 1.0) * y + 1.0)
        value = (1.0 - y) * x - log_sigmoid
        return value if scale is None else value * scale

    return _elementwise(ctx, [x, target, *_present(weight, pos_weight)], loss, reduction)


def _present(*views: TensorView | None) -> list[TensorView]:
    return [view for view in views if view is not None]
