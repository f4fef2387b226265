"""The log probability of one class of each row: nll_loss, its derivative, and gather from a log_softmax.

Where what is looked up comes from a log_softmax that nothing else reads, the row's log probabilities are never
stored: ``log_softmax`` with ``nll_loss`` or ``gather`` is one pass over the logits, as cross_entropy is.
"""

from __future__ import annotations

import torch
from torch import fx

from longhand.capture.graph import Role
from longhand.lower.body import compute_dtype
from longhand.lower.context import Context
from longhand.lower.lowerings.activations import where
from longhand.lower.lowerings.class_losses import (
    ClassLossArguments,
    Row,
    along_classes,
    counts_of,
    log_softmax_of,
    of_rows,
    read_given,
    reduce_rows,
    row_losses,
    store_cross_entropy,
    summed,
)
from longhand.lower.lowerings.indexing import Lookup, gathered, load_looked_up, require_float_table
from longhand.lower.lowerings.losses import LossReduction
from longhand.lower.lowerings.viewing import wrap
from longhand.lower.registry import lowers
from longhand.lower.unsupported import UnsupportedLowering
from longhand.lower.views import TensorView

aten = torch.ops.aten

_LOG_SOFTMAX = frozenset({aten.log_softmax.int, aten._log_softmax.default, aten.special_log_softmax.default})


@lowers(aten.nll_loss.default, aten.nll_loss_nd.default, aten.nll_loss2d.default)
def _nll(
    ctx: Context,
    log_probs: TensorView,
    target: TensorView,
    weight: TensorView | None,
    reduction: int,
    ignore_index: int,
) -> TensorView:
    logits = _logits_of(ctx, 1 if log_probs.rank > 1 else 0)
    given = read_given(ctx, log_probs if logits is None else logits, target, weight, ignore_index)
    losses = row_losses(ctx, given, reduction)
    if logits is None:
        _store_nll(ctx, given, losses)
    else:
        store_cross_entropy(ctx, given, losses, 0.0)
    return losses if reduction == LossReduction.NONE else reduce_rows(ctx, losses, given, reduction)


def _store_nll(ctx: Context, given: ClassLossArguments, losses: TensorView) -> None:
    """The nest that stores each row's loss, from log probabilities: it reads one of them for each row."""
    nest, (label_view,) = ctx.nest(given.labels.shape, [given.labels])
    row = Row(nest, given, nest.load(label_view).named(Role.LABEL))
    value = -row.picked(range(nest.rank), Role.TARGET_LOG_PROB)
    if given.weight is not None:
        value = value * row.weight()
    nest.store(of_rows(losses, given), row.counted(value.named(Role.LOSS)))
    ctx.finish(nest)


@lowers(aten.nll_loss_forward.default)
def _nll_forward(
    ctx: Context,
    log_probs: TensorView,
    target: TensorView,
    weight: TensorView | None,
    reduction: int,
    ignore_index: int,
) -> tuple[TensorView, ...]:
    """The loss and the total weight of the rows that count, which the gradient of a mean divides by."""
    if reduction == LossReduction.NONE:
        raise UnsupportedLowering("It leaves the total weight undefined.")
    given = read_given(ctx, log_probs, target, weight, ignore_index)
    losses = row_losses(ctx, given, reduction)
    _store_nll(ctx, given, losses)
    return summed(ctx, losses, given, reduction, (0, 1))


@lowers(aten.nll_loss_backward.default)
def _nll_backward(
    ctx: Context,
    gradient: TensorView,
    log_probs: TensorView,
    target: TensorView,
    weight: TensorView | None,
    reduction: int,
    ignore_index: int,
    total_weight: TensorView,
) -> TensorView:
    given = read_given(ctx, log_probs, target, weight, ignore_index)
    views = [given.labels.insert(given.dim)]
    views.append(gradient.insert(given.dim) if gradient.rank and given.x.rank > 1 else gradient)
    views.append(total_weight)
    if weight is not None:
        views.append(along_classes(weight, given))
    nest, (label_view, gradient_view, total_view, *weight_view) = ctx.nest(given.x.shape, views)
    label = nest.load(label_view).named(Role.LABEL)
    is_label = nest.position(given.dim).equals(label.to(torch.int64))
    value = -nest.load(gradient_view)
    if weight_view:
        value = value * nest.load(weight_view[0], name=Role.CLASS_WEIGHT)
    if reduction == LossReduction.MEAN:
        value = value / nest.load(total_view)
    takes_part = is_label & counts_of(label, ignore_index)
    target_buffer = ctx.make_result()
    nest.store(target_buffer, where(takes_part, value, 0.0).named(ctx.local))
    ctx.finish(nest)
    return target_buffer


# --- log probabilities of one class of each row ---


@lowers(aten.gather.default)
def _gather(ctx: Context, x: TensorView, dim: int, index: TensorView, *_: object) -> TensorView:
    dim = wrap(dim, x.rank) if x.rank else 0
    logits = _logits_of(ctx, dim)
    fits = index.rank == x.rank and all(
        index.size(i) == (1 if i == dim else x.size(i)) for i in range(x.rank)
    )
    if logits is None or not fits or x.is_empty:
        return gathered(ctx, x, dim, index)
    require_float_table(logits, index)
    logits = ctx.strided(logits)
    nest, (x_view, index_view) = ctx.nest(logits.shape, [logits, index])
    axes = nest.axes([dim])
    logit = nest.load(x_view)
    lookup = Lookup(
        nest, nest.load(index_view), x.size(dim), wraps=False, along=axes, mask_word=Role.IS_CLASS
    )
    coordinates = [lookup.coordinate if i == dim else nest.coordinate(i) for i in range(x.rank)]
    picked = load_looked_up(nest, logits, coordinates, [lookup]).named(Role.PICKED)
    target = ctx.make_result()
    kept = [i for i in range(x.rank) if i != dim]
    row_max, log_denominator = log_softmax_of(nest, logit, axes)
    nest.store(target.drop(dim), (picked - row_max - log_denominator).named(ctx.local), kept)
    ctx.finish(nest)
    return target


def _logits_of(ctx: Context, dim: int) -> TensorView | None:
    """What the node's first argument is the log_softmax of along `dim`, if nothing else reads that."""
    source = ctx.node.args[0]
    if not isinstance(source, fx.Node) or source.target not in _LOG_SOFTMAX or len(source.users) != 1:
        return None
    logits, along = source.args[0], source.args[1]
    assert isinstance(logits, fx.Node) and isinstance(along, int)
    given, made = logits.meta["val"], source.meta["val"]
    if (
        made.dim() == 0
        or along % made.dim() != dim
        or compute_dtype(given.dtype) is not compute_dtype(made.dtype)
    ):
        return None
    return ctx.readable(ctx.values[logits.name])
