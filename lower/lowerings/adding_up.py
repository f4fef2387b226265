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
by one they would err, and wait for each other, more than what is sorted first, ATen sorts.

Range. Eager stops at a position that is out of range. A kernel cannot, and must not write there: it adds NaN at
position 0 instead, which shows. Totals of whole numbers have no such value and are left to ATen. ``index_put`` counts
negative positions from the end, the others do not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from longhand.lower.body import Size, compute_dtype
from longhand.lower.builder import Handle
from longhand.lower.context import Context
from longhand.lower.ir import Derivation
from longhand.lower.lowerings.indexing import Lookup
from longhand.lower.lowerings.viewing import wrap
from longhand.lower.nest import Coordinate, NestBuilder
from longhand.lower.registry import lowers
from longhand.lower.rules.adding import adding_problem
from longhand.lower.sizes import product, same
from longhand.lower.unsupported import LOOP_DTYPES, Decline
from longhand.lower.views import TensorView

aten = torch.ops.aten

_POSITIONS = frozenset({torch.int64, torch.int32})  # bytes are a mask
# As many values as may meet at one element, were they spread evenly: beyond it sums one by one round more than what
# ATen sorts first, and atomic additions to one place wait for each other. 18,000 at one were off by 1.7e-4 of the sum
# on an H100.
_MOST_AT_ONE = 256


@lowers(aten.index_put.default)
def _index_put(
    ctx: Context,
    x: TensorView,
    indices: Sequence[TensorView | None],
    values: TensorView,
    accumulate: bool = False,
) -> TensorView:
    given = {dim: index for dim, index in enumerate(indices) if index is not None}
    if not (ctx.is_cuda and accumulate) or not given:
        raise Decline("Where it writes is data: ATen does it.")
    rank = max(index.rank for index in given.values())
    dims = sorted(given)
    # The indices' dimensions stand where the first of them was, or in front if they are not neighbours.
    at = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0
    rest = [dim for dim in range(x.rank) if dim not in given]
    sizes = [x.size(dim) for dim in rest]
    picked = _broadcast([index.shape for index in given.values()])
    space = (*sizes[:at], *picked, *sizes[at:])
    places = [place for place in range(len(space)) if not at <= place < at + rank]
    aligned = {dim: _before(index, len(space) - at - rank) for dim, index in given.items()}
    others = dict(zip(rest, places, strict=True))
    return _added_up(ctx, x, values.expand(space), aligned, others, wraps=True)


@lowers(aten.index_add.default)
def _index_add(
    ctx: Context, x: TensorView, dim: int, index: TensorView, source: TensorView, alpha: float = 1
) -> TensorView:
    if x.rank == 0 or index.rank != 1 or source.rank != x.rank:
        raise Decline("index_add of one element is left to ATen.")
    dim = wrap(dim, x.rank)
    others = {i: i for i in range(x.rank) if i != dim}
    aligned = {dim: _before(index, x.rank - dim - 1)}
    return _added_up(ctx, x, source, aligned, others, factor=alpha)


@lowers(aten.scatter_add.default)
def _scatter_add(ctx: Context, x: TensorView, dim: int, index: TensorView, source: TensorView) -> TensorView:
    if x.rank == 0 or index.rank != x.rank or source.rank != x.rank:
        raise Decline("scatter_add of one element is left to ATen.")
    dim = wrap(dim, x.rank)
    looked_at: TensorView | None = source  # where the index says nothing, no element is
    for i in range(x.rank):
        looked_at = looked_at and looked_at.narrow(i, 0, index.size(i))
    if looked_at is None:
        raise Decline("The part of the source that the index is for has no loops.")
    return _added_up(ctx, x, looked_at, {dim: index}, {i: i for i in range(x.rank) if i != dim})


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
        raise Decline("What it does where values meet is no sum: ATen does it.")
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
        raise Decline("How often a position comes is counted by ATen.")
    aligned = {0: _before(indices, 1)}
    skipped = padding_idx if padding_idx >= 0 else None
    return _added_up(ctx, None, d_out, aligned, {1: d_out.rank - 1}, skipped=skipped)


def _before(index: TensorView, n_dims: int) -> TensorView:
    """The index with so many dimensions of size 1 behind its own."""
    for _ in range(n_dims):
        index = index.insert(index.rank)
    return index


def _broadcast(shapes: Sequence[tuple[Size, ...]]) -> tuple[Size, ...]:
    """The shape that several are broadcast to, which capture has seen to fit."""
    found: list[Size] = []
    for place in range(1, max(map(len, shapes)) + 1):
        sizes = [shape[-place] for shape in shapes if len(shape) >= place]
        found.insert(0, next((size for size in sizes if not same(size, 1)), 1))
    return tuple(found)


def _added_up(
    ctx: Context,
    x: TensorView | None,
    values: TensorView,
    indices: Mapping[int, TensorView],
    others: Mapping[int, int],
    *,
    wraps: bool = False,
    factor: float = 1,
    skipped: int | None = None,
) -> TensorView:
    """The node's result: x, and the values added at their positions.

    Args:
        ctx: The program and the node.
        x: What they are added to; None: zeros.
        values: Each is one iteration's.
        indices: By dimension of x, the position there: broadcast to the shape of the values.
        others: By each other dimension of x, the dimension of the values that is the same.
        wraps: Whether negative positions count from the end.
        factor: Of the values.
        skipped: The position whose values are left out.
    """
    shape, dtype = ctx.result_shape(), ctx.result().dtype
    _check(ctx, shape, values, indices)
    wide = compute_dtype(dtype)
    total = ctx.make_result() if wide == dtype else ctx.derive(Derivation.TOTALS, ctx.name, wide, shape)
    _begin(ctx, x, total)
    nest, (given, *views) = ctx.nest(values.shape, [values, *indices.values()])
    lookups = {
        dim: Lookup(
            nest, nest.load(view), shape[dim], wraps=wraps, size_word="n_places", mask_word="in_totals"
        )
        for dim, view in zip(indices, views, strict=True)
    }
    is_there, coordinates = _places(nest, lookups, others)
    value = nest.load(given).to(wide)
    if factor != 1:
        value = value * factor
    value = nest.body.where(is_there, value, math.nan)
    mask = None if skipped is None else lookups[0].position.differs(skipped)
    nest.add_at(total, coordinates, value, mask)
    adding = nest.finish()
    if adding_problem(adding) is not None:
        raise Decline("Some values are added at one place along a whole dimension: ATen does it.")
    ctx.append(adding)
    return total if wide == dtype else _narrowed(ctx, total)


def _check(
    ctx: Context, shape: Sequence[Size], values: TensorView, indices: Mapping[int, TensorView]
) -> None:
    """Declines what is left to ATen."""
    if not ctx.is_cuda:
        raise Decline("Where it writes is data: ATen does it.")
    if torch.are_deterministic_algorithms_enabled():
        raise Decline("Deterministic algorithms are asked for, and ATen has one.")
    types = {ctx.result().dtype, values.dtype}
    if not types <= LOOP_DTYPES or not all(dtype.is_floating_point for dtype in types):
        raise Decline("Totals that are no floats have no value that shows a position out of range.")
    if any(index.dtype not in _POSITIONS for index in indices.values()):
        raise Decline("Only integer positions are loops of ours.")
    if 0 in shape or values.is_empty or values.rank == 0:
        raise Decline("Adding nothing is left to ATen.")
    n_added, n_elements = product(values.shape), product(shape)
    if isinstance(n_added, int) and isinstance(n_elements, int) and n_added > _MOST_AT_ONE * n_elements:
        raise Decline("So many values meet at one that ATen sorts them first.")


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


def _places(
    nest: NestBuilder, lookups: Mapping[int, Lookup], others: Mapping[int, int]
) -> tuple[Handle, list[Coordinate]]:
    """Whether a value's positions are all in range, and where it is added, by dimension: at 0 if they are not."""
    is_there, *further = (lookup.in_range for lookup in lookups.values())
    for one in further:
        is_there = is_there & one
    coordinates: dict[int, Coordinate] = {dim: nest.coordinate(place) for dim, place in others.items()}
    for dim, lookup in lookups.items():
        at = nest.body.where(is_there, lookup.position, 0).named("place")
        coordinates[dim] = Coordinate(values=((at.position, 1),))
    return is_there, [coordinates[dim] for dim in sorted(coordinates)]


def _narrowed(ctx: Context, total: TensorView) -> TensorView:
    """The node's result, rounded from the totals."""
    target = ctx.make_result()
    nest, (view,) = ctx.nest(total.shape, [total])
    nest.store(target, nest.load(view).to(target.dtype).named(ctx.local))
    ctx.finish(nest)
    return target
