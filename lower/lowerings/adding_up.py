"""Values added up at positions that are data, on CUDA: what graph networks do, and what a lookup's derivative is.

Eager adds bags of rows in two ways: ``index_add`` and ``scatter_add`` with atomic operations, each rounded to the
tensor's own type; ``index_put(accumulate=True)`` and ``embedding_dense_backward`` by sorting the positions first, in
dozens of launches. Here all of them are three nests:

    totals = x                           zeros as a rule; in float32 where x has 16 bits
    totals[position] += value            one store that adds (`Store.adds`), for each element of what is added
    result = totals                      where they are wider than the result, in whatever reads it

The second takes in what makes the values, as any nest does, and is one kernel that ends in atomic additions. Nobody
reads totals before it is over (`lower/rules/adding.py` holds that for every pass after this one), and no other nest
of the call writes them.

Order. Atomic additions come in whatever order they come, so that two calls may differ in the last places, where eager
has ``embedding_dense_backward`` and ``index_put`` the same each time. With ``torch.use_deterministic_algorithms``,
which then has to be on where the unit is made, all of it is left to ATen, which sorts.

Rounding. Totals of 16-bit numbers are rounded once instead of with every addition. Where so many values meet that one
by one they would err, and wait for each other, more than what is sorted first, ATen sorts; or, where they are for a few
places (a table of two types of words), each place is a sum over all of them of what is for it, which is no atomic
addition, and the same every time.

Range. Eager stops at a position that is out of range. A kernel cannot, and must not write there: it adds NaN at
position 0 instead, which shows (positions that a sort or an arange made need no check). Totals of whole numbers have
no such value and are left to ATen. ``index_put`` counts negative positions from the end, the others do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from longhand.capture.graph import Role
from longhand.lower.body import Size, compute_dtype
from longhand.lower.builder import Handle
from longhand.lower.context import Context
from longhand.lower.ir import Derivation
from longhand.lower.lowerings.indexing import Lookup, given_node
from longhand.lower.nest import NestBuilder
from longhand.lower.ops import ReduceOp
from longhand.lower.registry import lowers
from longhand.lower.rules.adding import adding_problem
from longhand.lower.sizes import product
from longhand.lower.unsupported import LOOP_DTYPES, UnsupportedLowering
from longhand.lower.views import TensorView
from longhand.lower.writes.placing import (
    POSITIONS,
    Placed,
    look_up,
    placed_along,
    placed_by_indices,
    placed_one_by_one,
    places,
    with_ones_after,
)

aten = torch.ops.aten

# As many values as may meet at one element, were they spread evenly: beyond it sums one by one round more than what
# ATen sorts first, and atomic additions to one place wait for each other. 18,000 at one were off by 1.7e-4 of the sum
# on an H100.
_MOST_AT_ONE = 256
# As many places as may have a sum over all values each, and as often as values may be looked at in all.
_FEW = 32
_MOST_LOOKS = 2**27


@lowers(aten.index_put.default)
def _index_put(
    ctx: Context,
    x: TensorView,
    indices: Sequence[TensorView | None],
    values: TensorView,
    accumulate: bool = False,
) -> TensorView:
    if not (ctx.is_cuda and accumulate):
        raise UnsupportedLowering("Where it writes is data: ATen does it.")
    return _added_up(ctx, x, placed_by_indices(ctx, x, indices, values))


@lowers(aten.index_add.default)
def _index_add(
    ctx: Context, x: TensorView, dim: int, index: TensorView, source: TensorView, alpha: float = 1
) -> TensorView:
    return _added_up(ctx, x, placed_along(ctx, x, dim, index, source).times(alpha))


@lowers(aten.scatter_add.default)
def _scatter_add(ctx: Context, x: TensorView, dim: int, index: TensorView, source: TensorView) -> TensorView:
    return _added_up(ctx, x, placed_one_by_one(ctx, x, dim, index, source))


@lowers(aten.scatter_reduce.two)
def _scatter_reduce(
    ctx: Context,
    x: TensorView,
    dim: int,
    index: TensorView,
    source: TensorView,
    reduce: str,
    include_self: bool = True,
) -> TensorView:
    if reduce != "sum" or not include_self:
        raise UnsupportedLowering("What it does where values meet is no sum: ATen does it.")
    return _scatter_add(ctx, x, dim, index, source)


@lowers(aten.embedding_dense_backward.default)
def _embedding_dense_backward(
    ctx: Context,
    d_out: TensorView,
    indices: TensorView,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> TensorView:
    if scale_grad_by_freq:
        raise UnsupportedLowering("How often a position comes is counted by ATen.")
    aligned = {0: with_ones_after(indices, 1)}
    skipped = padding_idx if padding_idx >= 0 else None
    nodes = {0: given_node(ctx, 1)}
    return _added_up(ctx, None, Placed(d_out, aligned, {1: d_out.rank - 1}, skipped=skipped, nodes=nodes))


def _added_up(ctx: Context, x: TensorView | None, added: Placed) -> TensorView:
    """The node's result: x, or zeros, and the values added at their positions."""
    shape, dtype = ctx.result_shape(), ctx.result().dtype
    _check(ctx, shape, added)
    if _meets_at_few(shape, added):
        return _summed_by_place(ctx, x, added)
    if torch.are_deterministic_algorithms_enabled():
        raise UnsupportedLowering("Deterministic algorithms are asked for, and ATen has one.")
    wide = compute_dtype(dtype)
    total = ctx.make_result() if wide == dtype else ctx.derive(Derivation.TOTALS, ctx.name, wide, shape)
    _begin(ctx, x, total)
    nest, (values, *views) = ctx.nest(added.values.shape, [added.values, *added.indices.values()])
    lookups = {
        dim: look_up(nest, view, dim, shape[dim], added)
        for dim, view in zip(added.indices, views, strict=True)
    }
    is_there, coordinates = places(nest, lookups, added.others)
    value = _value(nest, values, wide, added)
    if is_there is not None:
        value = nest.body.where(is_there, value, math.nan)
    mask = None if added.skipped is None else _is_not_padding(lookups[0], added.skipped)
    nest.add_at(total, coordinates, value, mask)
    adding = nest.finish()
    if adding_problem(adding) is not None:
        raise UnsupportedLowering("Some values are added at one place along a whole dimension: ATen does it.")
    ctx.append(adding)
    return total if wide == dtype else _narrowed(ctx, total)


def _check(ctx: Context, shape: Sequence[Size], added: Placed) -> None:
    """Declines what is left to ATen."""
    if not ctx.is_cuda:
        raise UnsupportedLowering("Where it writes is data: ATen does it.")
    types = {ctx.result().dtype, added.values.dtype}
    if not types <= LOOP_DTYPES or not all(dtype.is_floating_point for dtype in types):
        raise UnsupportedLowering(
            "Totals that are no floats have no value that shows a position out of range."
        )
    if any(index.dtype not in POSITIONS for index in added.indices.values()):
        raise UnsupportedLowering("Only integer positions are loops of ours.")
    if 0 in shape or added.values.is_empty or added.values.rank == 0:
        raise UnsupportedLowering("Adding nothing is left to ATen.")


def _meets_at_few(shape: Sequence[Size], added: Placed) -> bool:
    """Whether so many values meet at one that they are not added one by one, and the places are few.

    Raises:
        UnsupportedLowering: The places are too many for a sum each.
    """
    n_added, n_elements = product(added.values.shape), product(shape)
    if not isinstance(n_added, int) or not isinstance(n_elements, int):
        return False
    if n_added <= _MOST_AT_ONE * n_elements:
        return False
    n_places = product(shape[dim] for dim in added.indices)
    is_few = isinstance(n_places, int) and n_places <= _FEW and n_places * n_added <= _MOST_LOOKS
    if len(added.indices) > 1 or not is_few:
        raise UnsupportedLowering("So many values meet at one that ATen sorts them first.")
    return True


def _is_not_padding(lookup: Lookup, skipped: int) -> Handle:
    """Whether a position is none of the index whose row of the table has no gradient."""
    return lookup.position.differs(skipped).named(Role.IS_NOT_PADDING)


def _value(nest: NestBuilder, values: TensorView, dtype: torch.dtype, added: Placed) -> Handle:
    """What an iteration adds."""
    value = nest.load(values).to(dtype)
    return value if added.factor == 1 else value * added.factor


def _begin(ctx: Context, x: TensorView | None, total: TensorView) -> None:
    """Totals before anything is added."""
    start = 0.0 if x is None else ctx.fills.get(x.buffer)
    nest, views = ctx.nest(total.shape, [] if x is None or start is not None else [x])
    if start is not None:
        first: Handle = nest.body.constant(float(start), total.dtype)
    else:
        first = nest.load(views[0]).to(total.dtype)
    nest.store(total, first)
    ctx.finish(nest)


def _narrowed(ctx: Context, total: TensorView) -> TensorView:
    """The node's result, rounded from the totals."""
    target = ctx.make_result()
    nest, (view,) = ctx.nest(total.shape, [total])
    nest.store(target, nest.load(view).to(target.dtype).named(ctx.local))
    ctx.finish(nest)
    return target


def _summed_by_place(ctx: Context, x: TensorView | None, added: Placed) -> TensorView:
    """As `_added_up`: each element of the result is a sum over the dimensions of the values that it has not."""
    target = ctx.make_result()
    rank, ((dim, index),) = target.rank, added.indices.items()
    over = [place for place in range(added.values.rank) if place not in added.others.values()]
    turned = []
    for view in (ctx.readable(added.values), ctx.readable(index).expand(added.values.shape)):
        own = [view.dims[added.others[d]] if d in added.others else () for d in range(rank)]
        turned.append(view.replaced([*own, *(view.dims[place] for place in over)]))
    start = 0.0 if x is None else ctx.fills.get(x.buffer)
    if x is not None and start is None:
        turned.append(x.replaced([*x.dims, *((),) * len(over)]))
    space = (*target.shape, *(added.values.size(place) for place in over))
    nest, (values, positions, *starts) = ctx.nest(space, turned)
    lookup = look_up(nest, positions, dim, target.size(dim), added, along=nest.axes([dim]))
    is_here = lookup.position.equals(nest.position(dim))
    if added.skipped is not None:
        is_here = is_here & _is_not_padding(lookup, added.skipped)
    dtype = compute_dtype(target.dtype)
    value = nest.body.where(is_here, _value(nest, values, dtype, added), 0).named(Role.HERE)
    if lookup.in_range is not None:
        value = nest.body.where(lookup.in_range, value, math.nan)
    total = nest.body.reduce(ReduceOp.SUM, value, nest.axes(range(rank, len(space))))
    if starts:
        total = nest.load(starts[0]).to(dtype) + total
    elif start:
        total = total + float(start)
    nest.store(target, total.to(target.dtype).named(ctx.local), range(rank))
    ctx.finish(nest)
    return target
