"""Losses: one value per element or per row, and where it is asked for, one reduction over them all."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

import torch

from longhand.lower.activations import clamp, where
from longhand.lower.body import PointwiseOp, ReduceOp, compute_dtype
from longhand.lower.builder import Handle
from longhand.lower.context import Context, Operand
from longhand.lower.decline import Decline, require_loop_dtypes
from longhand.lower.indexing import Lookup, load_looked_up, require_float_table
from longhand.lower.nest import NestBuilder
from longhand.lower.pointwise import apply
from longhand.lower.registry import lowers
from longhand.lower.views import TensorView

aten = torch.ops.aten
Op = PointwiseOp


class Kind(enum.IntEnum):
    """torch's codes for a loss's reduction argument."""

    NONE = 0
    MEAN = 1
    SUM = 2


# --- elementwise losses ---


def _elementwise(
    ctx: Context, operands: Sequence[Operand], loss: Callable[..., Handle], reduction: int
) -> TensorView:
    """loss(operands), reduced as asked: one nest either way."""
    if reduction == Kind.NONE:
        return ctx.pointwise(operands, loss)
    dtype = ctx.result().dtype
    tensors = [operand for operand in operands if isinstance(operand, TensorView)]
    require_loop_dtypes(dtype, *(view.dtype for view in tensors))
    shape = max((view.shape for view in tensors), key=len)
    if any(view.shape != shape or view.is_empty for view in tensors[:2]):
        raise Decline("A loss of nothing, or between tensors of different shapes, is left to ATen.")
    nest, views = ctx.nest(shape, tensors)
    values = [nest.load(view).to(dtype) for view in views]
    total = nest.body.reduce(ReduceOp.SUM, loss(*values), nest.axes(), "total")
    if reduction == Kind.MEAN:
        count = (
            nest.body.extent(nest.axes(), total.dtype) if nest.axes() else nest.body.constant(1, total.dtype)
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


# --- losses of classes ---


@lowers(aten.cross_entropy_loss.default)
def _cross_entropy(
    ctx: Context,
    logits: TensorView,
    target: TensorView,
    weight: TensorView | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> TensorView:
    if target.dtype.is_floating_point or weight is not None:
        raise Decline("cross_entropy with class probabilities or weights is left to ATen.")

    def loss(nest: NestBuilder, axes: Sequence[str], logit: Handle, picked: Handle) -> Handle:
        row_max = nest.body.reduce(ReduceOp.MAX, logit, axes, "row_max")
        row_sum = nest.body.reduce(ReduceOp.SUM, apply(Op.EXP, logit - row_max), axes, "denominator")
        log_sum = (row_max + apply(Op.LOG, row_sum)).named("log_denominator")
        value = log_sum - picked
        if label_smoothing == 0:
            return value
        mean = nest.body.reduce(ReduceOp.SUM, logit, axes, "logit_sum") / nest.body.extent(axes, logit.dtype)
        return value * (1.0 - label_smoothing) + (log_sum - mean) * label_smoothing

    return _class_loss(ctx, logits, target, reduction, ignore_index, loss)


@lowers(aten.nll_loss.default, aten.nll_loss_nd.default, aten.nll_loss2d.default)
def _nll(
    ctx: Context,
    log_probs: TensorView,
    target: TensorView,
    weight: TensorView | None,
    reduction: int,
    ignore_index: int,
) -> TensorView:
    if weight is not None:
        raise Decline("nll_loss with weights is left to ATen.")
    return _class_loss(ctx, log_probs, target, reduction, ignore_index, lambda nest, axes, x, picked: -picked)


ClassLoss = Callable[[NestBuilder, Sequence[str], Handle, Handle], Handle]


def _class_loss(
    ctx: Context, x: TensorView, target: TensorView, reduction: int, ignore_index: int, loss: ClassLoss
) -> TensorView:
    """A loss per row of classes, and (a nest of its own) its reduction over the rows that count."""
    require_float_table(x, target)
    if x.is_empty:
        raise Decline("The loss of nothing is left to ATen.")
    classes = 1 if x.rank > 1 else 0
    rows = target
    if x.rank == 1 and target.rank == 1:
        rows = target.drop(0)
    kept = [dim for dim in range(x.rank) if dim != classes]
    dtype = ctx.result().dtype
    if reduction == Kind.NONE:
        losses = ctx.make_result()
    else:
        losses = ctx.make_buffer(ctx.fresh(f"{ctx.name}_losses"), compute_dtype(dtype), rows.shape)
    x = ctx.strided(x)
    nest, (x_view, target_view) = ctx.nest(x.shape, [x, rows.insert(classes)])
    logit = nest.load(x_view)
    label = nest.load(target_view).named("label")
    counts = _counts(label, ignore_index)
    lookup = Lookup(
        nest, label, x.size(classes), wraps=False, along=nest.axes([classes]), mask_word="is_class"
    )
    coordinates = [lookup.coordinate if dim == classes else nest.coordinate(dim) for dim in range(x.rank)]
    picked = load_looked_up(nest, x, coordinates, [lookup]).named("target_logit")
    value = loss(nest, nest.axes([classes]), logit, picked).named("loss")
    into = losses.drop(0) if losses.rank > len(kept) else losses
    nest.store(into, where(counts, value, 0.0), kept)
    ctx.finish(nest)
    return losses if reduction == Kind.NONE else _reduce_rows(ctx, losses, rows, reduction, ignore_index)


def _counts(label: Handle, ignore_index: int) -> Handle:
    """Whether a row takes part in the loss."""
    label = label.to(torch.int64)
    return label.differs(label.body.constant(ignore_index, torch.int64, "ignore_index")).named("counts")


def _reduce_rows(
    ctx: Context, losses: TensorView, target: TensorView, reduction: int, ignore_index: int
) -> TensorView:
    """The sum, or the mean over the rows whose target is not ignored."""
    nest, (losses_view, target_view) = ctx.nest(losses.shape, [losses, target])
    total = nest.body.reduce(ReduceOp.SUM, nest.load(losses_view), nest.axes(), "total")
    if reduction == Kind.MEAN:
        counts = _counts(nest.load(target_view), ignore_index)
        total = total / nest.body.reduce(ReduceOp.SUM, counts.to(total.dtype), nest.axes(), "n_counted")
    result = ctx.make_result()
    nest.store(result, total.named(ctx.local), [])
    ctx.finish(nest)
    return result
