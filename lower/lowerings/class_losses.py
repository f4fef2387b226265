"""Cross entropy: the loss of each row of classes in one nest, and in another its reduction over the rows that count."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from longhand.capture.graph import Role
from longhand.lower.body import Size, compute_dtype
from longhand.lower.builder import Handle
from longhand.lower.context import Context
from longhand.lower.ir import Derivation
from longhand.lower.lowerings.activations import where
from longhand.lower.lowerings.indexing import Lookup, load_looked_up, require_float_table
from longhand.lower.lowerings.losses import LossReduction
from longhand.lower.lowerings.pointwise import apply
from longhand.lower.nest import NestBuilder
from longhand.lower.ops import PointwiseOp, ReduceOp
from longhand.lower.registry import lowers
from longhand.lower.unsupported import UnsupportedLowering, require_loop_dtypes
from longhand.lower.views import TensorView

aten = torch.ops.aten
Op = PointwiseOp


@dataclasses.dataclass(frozen=True)
class ClassLossArguments:
    """What a loss of classes is given.

    Attributes:
        x: The logits or log probabilities: (rows..., classes, rows...).
        labels: The class of each row: the shape of x without its classes.
        weight: How much each class counts; None: all alike.
        ignore_index: Rows with this label count nothing.
    """

    x: TensorView
    labels: TensorView
    weight: TensorView | None
    ignore_index: int

    @property
    def dim(self) -> int:
        """The dimension of x that the classes lie in."""
        return 1 if self.x.rank > 1 else 0

    @property
    def n_classes(self) -> Size:
        """The number of classes."""
        return self.x.size(self.dim)

    @property
    def kept(self) -> list[int]:
        """The dimensions of x that the rows lie in."""
        return [dim for dim in range(self.x.rank) if dim != self.dim]


def read_given(
    ctx: Context, x: TensorView, target: TensorView, weight: TensorView | None, ignore_index: int
) -> ClassLossArguments:
    require_float_table(x, target)
    if x.is_empty:
        raise UnsupportedLowering("The loss of nothing is left to ATen.")
    if weight is not None:
        require_loop_dtypes(weight.dtype)
        weight = ctx.strided(weight)
    labels = target.drop(0) if x.rank == 1 and target.rank == 1 else target
    return ClassLossArguments(ctx.strided(x), labels, weight, ignore_index)


class Row:
    """One row's label in a nest, and what is looked up by it.

    Args:
        nest: Where.
        given: What the loss is given.
        label: The label as loaded.
        along: Axes of the nest that run over the classes, if some do.
    """

    def __init__(
        self, nest: NestBuilder, given: ClassLossArguments, label: Handle, along: Sequence[str] = ()
    ) -> None:
        self._nest, self._given = nest, given
        self.counts = counts_of(label, given.ignore_index)
        self._lookup = Lookup(
            nest,
            label,
            given.n_classes,
            wraps=False,
            size_word=Role.N_CLASSES,
            along=along,
            mask_word=Role.IS_CLASS,
        )

    def picked(self, dims: Sequence[int], word: str) -> Handle:
        """The row's element of x at its label. NaN if it is no class. `dims`: where the nest runs over x's rows."""
        nest, given = self._nest, self._given
        coordinates = [nest.coordinate(dim) for dim in dims]
        coordinates.insert(given.dim, self._lookup.coordinate)
        return load_looked_up(nest, given.x, coordinates, [self._lookup]).named(word)

    def weight(self) -> Handle:
        """How much the row's class counts. Only with weights."""
        assert self._given.weight is not None
        loaded = load_looked_up(self._nest, self._given.weight, [self._lookup.coordinate], [self._lookup])
        return loaded.named(Role.LABEL_WEIGHT)

    def counted(self, value: Handle) -> Handle:
        """The value where the row counts, else 0."""
        return where(self.counts, value, 0.0)


def counts_of(label: Handle, ignore_index: int) -> Handle:
    """Whether a row takes part in the loss."""
    label = label.to(torch.int64)
    return label.differs(label.body.constant(ignore_index, torch.int64, Role.IGNORE_INDEX)).named(Role.COUNTS)


# --- cross entropy ---


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
    if target.dtype.is_floating_point:
        if ignore_index >= 0:
            raise UnsupportedLowering("Eager refuses ignore_index with class probabilities.")
        return _soft_cross_entropy(ctx, logits, target, weight, reduction, label_smoothing)
    given = read_given(ctx, logits, target, weight, ignore_index)
    losses = row_losses(ctx, given, reduction)
    store_cross_entropy(ctx, given, losses, label_smoothing)
    return losses if reduction == LossReduction.NONE else reduce_rows(ctx, losses, given, reduction)


def store_cross_entropy(
    ctx: Context, given: ClassLossArguments, losses: TensorView, smoothing: float
) -> None:
    """The nest that stores each row's loss, from logits."""
    views = [given.x, given.labels.insert(given.dim)]
    if given.weight is not None and smoothing:
        views.append(along_classes(given.weight, given))
    nest, (x_view, label_view, *weight_view) = ctx.nest(given.x.shape, views)
    axes = nest.axes([given.dim])
    logit = nest.load(x_view)
    row = Row(nest, given, nest.load(label_view).named(Role.LABEL), along=axes)
    picked = row.picked(given.kept, Role.TARGET_LOGIT)
    row_max, log_denominator = log_softmax_of(nest, logit, axes)
    # As in eager the largest logit is taken away first: behind large ones the digits of a small loss would be lost.
    value = log_denominator - (picked - row_max)
    if given.weight is not None:
        value = value * row.weight()
    if smoothing:
        class_weight = nest.load(weight_view[0], name=Role.CLASS_WEIGHT) if weight_view else None
        shifted = (logit - row_max).named(Role.SHIFTED)
        value = value * (1.0 - smoothing) + smoothing * _mean_loss(
            nest, axes, shifted, log_denominator, class_weight
        )
    nest.store(of_rows(losses, given), row.counted(value.named(Role.LOSS)), given.kept)
    ctx.finish(nest)


def log_softmax_of(nest: NestBuilder, logit: Handle, axes: Sequence[str]) -> tuple[Handle, Handle]:
    """What the log_softmax of a row takes off its logits, one after the other: max, log(sum(exp(logit - max)))."""
    row_max = nest.body.reduce(ReduceOp.MAX, logit, axes, Role.ROW_MAX)
    denominator = nest.body.reduce(ReduceOp.SUM, apply(Op.EXP, logit - row_max), axes, Role.DENOMINATOR)
    return row_max, apply(Op.LOG, denominator, name=Role.LOG_DENOMINATOR)


def _mean_loss(
    nest: NestBuilder, axes: Sequence[str], shifted: Handle, log_denominator: Handle, weight: Handle | None
) -> Handle:
    """The loss of a row whose label could be any class, from its logits less the largest of them."""
    count = nest.body.axis_size(axes, shifted.dtype) if axes else nest.body.constant(1, shifted.dtype)
    if weight is None:
        return log_denominator - nest.body.reduce(ReduceOp.SUM, shifted, axes, Role.SHIFTED_SUM) / count
    total = nest.body.reduce(ReduceOp.SUM, weight, axes, Role.WEIGHT_SUM)
    weighted = nest.body.reduce(ReduceOp.SUM, weight * shifted, axes, Role.WEIGHTED_SUM)
    return (log_denominator * total - weighted) / count


def along_classes(weight: TensorView, given: ClassLossArguments) -> TensorView:
    """The classes' weights, for a nest over x."""
    for _ in range(given.x.rank - 1 - given.dim):
        weight = weight.insert(weight.rank)
    return weight


def _soft_cross_entropy(
    ctx: Context,
    logits: TensorView,
    target: TensorView,
    weight: TensorView | None,
    reduction: int,
    smoothing: float,
) -> TensorView:
    """Cross entropy with a probability for each class: -sum(target * weight * log_softmax(logits))."""
    require_loop_dtypes(logits.dtype, target.dtype, *([] if weight is None else [weight.dtype]))
    if logits.is_empty:
        raise UnsupportedLowering("The loss of nothing is left to ATen.")
    # The labels of these rows are no data: `target` stands for them.
    given = ClassLossArguments(logits, target, weight, -1)
    views = [logits, target, *([] if weight is None else [along_classes(weight, given)])]
    nest, (x_view, target_view, *weight_view) = ctx.nest(logits.shape, views)
    axes = nest.axes([given.dim])
    logit, expected = nest.load(x_view), nest.load(target_view)
    if smoothing:
        count = nest.body.axis_size(axes, logit.dtype) if axes else nest.body.constant(1, logit.dtype)
        expected = expected * (1.0 - smoothing) + smoothing / count
    row_max = nest.body.reduce(ReduceOp.MAX, logit, axes, Role.ROW_MAX)
    shifted = (logit - row_max).named(Role.SHIFTED)
    denominator = nest.body.reduce(ReduceOp.SUM, apply(Op.EXP, shifted), axes, Role.DENOMINATOR)
    log_prob = (shifted - apply(Op.LOG, denominator, name=Role.LOG_DENOMINATOR)).named(Role.LOG_PROB)
    product = expected * log_prob
    if weight_view:
        product = product * nest.load(weight_view[0], name=Role.CLASS_WEIGHT)
    losses = row_losses(ctx, given, reduction)
    value = -nest.body.reduce(ReduceOp.SUM, product, axes, Role.EXPECTED_LOG_PROB)
    nest.store(losses, value.named(Role.LOSS), given.kept)
    ctx.finish(nest)
    return losses if reduction == LossReduction.NONE else _reduce_all(ctx, losses, reduction)


# --- over the rows ---


def row_losses(ctx: Context, given: ClassLossArguments, reduction: int) -> TensorView:
    """The buffer for the losses of the rows: the result, if they are not reduced."""
    if reduction == LossReduction.NONE:
        return ctx.make_result()
    shape = tuple(given.x.size(dim) for dim in given.kept)
    return ctx.derive(Derivation.LOSSES, ctx.name, compute_dtype(given.x.dtype), shape)


def of_rows(losses: TensorView, given: ClassLossArguments) -> TensorView:
    """The losses' buffer without the dimension that eager gives the loss of a single row with a label of shape (1,)."""
    return losses.drop(0) if losses.rank > len(given.kept) else losses


def reduce_rows(ctx: Context, losses: TensorView, given: ClassLossArguments, reduction: int) -> TensorView:
    """The sum, or the mean over the rows that count."""
    (result,) = summed(ctx, losses, given, reduction, (None,))[:1]
    return result


def summed(
    ctx: Context, losses: TensorView, given: ClassLossArguments, reduction: int, places: Sequence[int | None]
) -> tuple[TensorView, ...]:
    """The reduced loss, and if `places` names two results, the total weight."""
    nest, (losses_view, label_view) = ctx.nest(losses.shape, [losses, given.labels])
    total = nest.body.reduce(ReduceOp.SUM, nest.load(losses_view), nest.axes(), Role.TOTAL)
    made = []
    if reduction == LossReduction.MEAN or len(places) > 1:
        label = nest.load(label_view)
        if given.weight is None:
            part, word = counts_of(label, given.ignore_index).to(total.dtype), Role.N_COUNTED
        else:
            row = Row(nest, given, label)
            part, word = row.counted(row.weight().to(total.dtype)), Role.TOTAL_WEIGHT
        counted = nest.body.reduce(ReduceOp.SUM, part, nest.axes(), word)
        made.append(counted)
        if reduction == LossReduction.MEAN:
            total = total / counted
    results = []
    for place, value in zip(places, [total.named(ctx.local), *made], strict=False):
        result = ctx.make_result(place)
        nest.store(result, value, [])
        results.append(result)
    ctx.finish(nest)
    return tuple(results)


def _reduce_all(ctx: Context, losses: TensorView, reduction: int) -> TensorView:
    """The sum or the mean over all rows."""
    nest, (view,) = ctx.nest(losses.shape, [losses])
    total = nest.body.reduce(ReduceOp.SUM, nest.load(view), nest.axes(), Role.TOTAL)
    if reduction == LossReduction.MEAN and nest.axes():
        total = total / nest.body.axis_size(nest.axes(), total.dtype)
    result = ctx.make_result()
    nest.store(result, total.named(ctx.local), [])
    ctx.finish(nest)
    return result
