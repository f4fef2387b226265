"""Group norm: one kernel where a group stays in the registers of a program, else by pieces (`piecewise`)."""

from __future__ import annotations

from typing import Any

import torch

from longhand.capture.graph import Role
from longhand.lower.body import compute_dtype
from longhand.lower.builder import Handle
from longhand.lower.context import Context
from longhand.lower.ir import Derivation
from longhand.lower.lowerings.normalization import affine, normalize
from longhand.lower.lowerings.piecewise import RowPieces, row_pieces
from longhand.lower.lowerings.pointwise import apply
from longhand.lower.nest import NestBuilder
from longhand.lower.ops import PointwiseOp
from longhand.lower.registry import lowers
from longhand.lower.sizes import divide
from longhand.lower.unsupported import UnsupportedLowering, require_loop_dtypes
from longhand.lower.views import TensorView

aten = torch.ops.aten


@lowers(aten.group_norm.default)
def _group_norm(
    ctx: Context,
    x: TensorView,
    groups: int,
    weight: TensorView | None,
    bias: TensorView | None,
    eps: float,
    *_: Any,
) -> TensorView:
    per_group = divide(x.size(1), groups)
    if per_group is None or x.is_empty:
        raise UnsupportedLowering("group_norm of nothing is left to ATen.")
    split = (x.size(0), groups, per_group, *x.shape[2:])
    grouped = x.reshape(split) or ctx.copy(x).reshape(split)
    assert grouped is not None
    vectors = []
    for view in (weight, bias):
        if view is not None:
            shaped = ctx.strided(view).reshape((groups, per_group, *(1 for _ in x.shape[2:])))
            assert shaped is not None
            vectors.append(shaped)
    require_loop_dtypes(x.dtype, *(view.dtype for view in vectors))
    within = range(2, len(split))
    pieces = row_pieces(ctx, grouped, within, ctx.result_name())
    statistics = [] if pieces is None else _statistics(ctx, pieces, len(within), eps)
    nest, (x_view, *others) = ctx.nest(split, [grouped, *statistics, *vectors])
    value = nest.load(x_view)
    if statistics:
        normalized = _normalized(nest, value, *others[:2])
    else:
        normalized, _mean, _rstd = normalize(nest, value, nest.axes(within), eps)
    result = affine(nest, normalized, weight, bias, others[len(statistics) :])
    target = ctx.make_result(like=[x])
    as_split = target.reshape(split)
    assert as_split is not None
    nest.store(as_split, result.named(ctx.local))
    ctx.finish(nest)
    return target


def _statistics(ctx: Context, pieces: RowPieces, n_within: int, eps: float) -> list[TensorView]:
    """Mean and 1 / deviation of each group, broadcastable to what is grouped."""
    nest = pieces.nest(ctx)
    mean, squares, count = pieces.statistics(nest)
    variance = (squares / count).named(Role.VARIANCE)
    rstd = apply(PointwiseOp.RSQRT, variance + nest.body.scalar(eps, mean.dtype, Role.EPS), name=Role.RSTD)
    statistics = []
    for how, statistic in ((Derivation.MEAN, mean), (Derivation.RSTD, rstd)):
        rows = range(nest.rank - 1)
        kept = ctx.derive(how, ctx.result_name(), compute_dtype(mean.dtype), nest.shape[:-1])
        nest.store(kept, statistic, rows)
        for _ in range(n_within):
            kept = kept.insert(kept.rank)
        statistics.append(kept)
    ctx.finish(nest)
    return statistics


def _normalized(nest: NestBuilder, value: Handle, mean: TensorView, rstd: TensorView) -> Handle:
    centered = (value - nest.load(mean).to(value.dtype)).named(Role.CENTERED)
    return (centered * nest.load(rstd).to(value.dtype)).named(Role.NORMALIZED)
