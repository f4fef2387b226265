"""Reading at positions that are data: embedding, gather, index, index_select.

Where eager raises for a position out of range (an IndexError on the CPU, an assertion on CUDA), a kernel cannot.
So every such load is masked by "the position is in range": nothing outside the table is ever read, and what comes
out instead is NaN, which shows. A table of integers or bools has no such value; there the op stays with ATen, and so
does its error. Positions that a sort, a clamp or an arange made need no check (`capture.known.ranges`).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sympy
import torch

from longhand.capture.graph import Role, range_of
from longhand.lower.body import Size
from longhand.lower.builder import Handle
from longhand.lower.context import Context
from longhand.lower.lowerings.viewing import wrap
from longhand.lower.nest import Coordinate, NestBuilder
from longhand.lower.registry import lowers
from longhand.lower.sizes import add, known_at_most, multiply
from longhand.lower.unsupported import UnsupportedLowering, require_loop_dtypes
from longhand.lower.views import TensorView, as_strided

aten = torch.ops.aten

_INDEX_DTYPES = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8})


def require_float_table(table: TensorView, *indices: TensorView) -> None:
    """Declines tables that cannot show a position out of range, and indices that are no integers."""
    require_loop_dtypes(table.dtype)
    if not table.dtype.is_floating_point:
        raise UnsupportedLowering(
            "Eager raises for positions out of range; a table of integers has no value that shows them."
        )
    if any(index.dtype not in _INDEX_DTYPES for index in indices):
        raise UnsupportedLowering("Only integer positions are loops of ours.")


class Lookup:
    """A position along one dimension that is data, and the condition that it is in range.

    Args:
        nest: Where.
        index: The position as loaded.
        size: The size of the dimension.
        wraps: Whether negative positions count from the end.
        size_word: A word for the size.
        along: Axes of the nest that run over the dimension too, if some do: the size is then theirs.
        mask_word: A word for the condition.
        is_certain: Whether every position is known to be in range, and counts from the start.

    Attributes:
        in_range: The condition; None where it always holds.
    """

    def __init__(
        self,
        nest: NestBuilder,
        index: Handle,
        size: Size,
        *,
        wraps: bool,
        size_word: str = Role.TABLE_SIZE,
        along: Sequence[str] = (),
        mask_word: str = Role.IN_TABLE,
        is_certain: bool = False,
    ) -> None:
        self.in_range: Handle | None = None
        if is_certain:
            self.position = index.to(torch.int64)
            self.coordinate = Coordinate(values=((self.position.position, 1),))
            return
        limit = (
            nest.body.axis_size(along, torch.int64)
            if along
            else nest.body.scalar(size, torch.int64, size_word)
        )
        position = index.to(torch.int64)
        if wraps:
            position = nest.body.where(position < 0, position + limit, position)
        self.in_range = ((position >= 0) & (position < limit)).named(mask_word)
        self.position = position
        self.coordinate = Coordinate(values=((position.position, 1),))


def load_looked_up(
    nest: NestBuilder, table: TensorView, coordinates: Sequence[Coordinate], lookups: Sequence[Lookup]
) -> Handle:
    """The element at looked-up coordinates; NaN where one of them is out of range."""
    mask = all_in_range(lookups)
    return nest.load_at(table, coordinates, mask, math.nan if mask is not None else 0)


def all_in_range(lookups: Iterable[Lookup]) -> Handle | None:
    """Whether all positions are in range; None where that is certain."""
    conditions = [lookup.in_range for lookup in lookups if lookup.in_range is not None]
    return functools.reduce(operator.and_, conditions) if conditions else None


def given_node(ctx: Context, place: int) -> object:
    """What the node that is lowered is given at a place; None where that is by name."""
    args = ctx.node.args
    return args[place] if place < len(args) else None


def is_inside(node: object, size: Size) -> bool:
    """Whether the positions that a node of the graph holds are known to be places of a dimension."""
    known = range_of(node)
    return known is not None and known_at_most(known.limit, size)


@lowers(aten.embedding.default)
def _embedding(ctx: Context, weight: TensorView, indices: TensorView, *_: Any) -> TensorView:
    require_float_table(weight, indices)
    weight = ctx.strided(weight)
    return _select_rows(ctx, weight, indices, 0, given_node(ctx, 1))


@lowers(aten.index_select.default)
def _index_select(ctx: Context, x: TensorView, dim: int, index: TensorView) -> TensorView:
    require_float_table(x, index)
    if x.rank == 0:
        raise UnsupportedLowering("index_select of one element is left to ATen.")
    return _select_rows(
        ctx, ctx.strided(x), index if index.rank else index.insert(0), wrap(dim, x.rank), ctx.node.args[2]
    )


def _select_rows(
    ctx: Context, table: TensorView, index: TensorView, dim: int, positions: object
) -> TensorView:
    """The result whose dimension `dim` is replaced by the dimensions of `index`, which the node `positions` holds."""
    target = ctx.make_result()
    after = table.rank - dim - 1
    aligned = index
    for _ in range(after):
        aligned = aligned.insert(aligned.rank)
    nest, (view,) = ctx.nest(target.shape, [aligned])
    size = table.size(dim)
    lookup = Lookup(nest, nest.load(view), size, wraps=False, is_certain=is_inside(positions, size))
    coordinates = [nest.coordinate(i) for i in range(dim)]
    coordinates.append(lookup.coordinate)
    coordinates += [nest.coordinate(dim + index.rank + i) for i in range(after)]
    nest.store(target, load_looked_up(nest, table, coordinates, [lookup]).named(ctx.local))
    ctx.finish(nest)
    return target


def gathered(ctx: Context, x: TensorView, dim: int, index: TensorView) -> TensorView:
    """The node's result: of x, along `dim`, the elements at the positions in `index`."""
    require_float_table(x, index)
    if x.rank == 0 or index.rank == 0 or index.is_empty:
        raise UnsupportedLowering("gather of one element or of nothing is left to ATen.")
    x = ctx.strided(x)
    target = ctx.make_result()
    nest, (view,) = ctx.nest(target.shape, [index])
    is_certain = is_inside(given_node(ctx, 2), x.size(dim))
    lookup = Lookup(nest, nest.load(view), x.size(dim), wraps=False, is_certain=is_certain)
    coordinates = [lookup.coordinate if i == dim else nest.coordinate(i) for i in range(x.rank)]
    nest.store(target, load_looked_up(nest, x, coordinates, [lookup]).named(ctx.local))
    ctx.finish(nest)
    return target


def _as_view(
    ctx: Context, x: TensorView, given: Mapping[int, TensorView], at: int, rank: int
) -> TensorView | None:
    """x indexed by ranges alone (aranges, however viewed): every element's place is affine, so it is a view of x.

    Args:
        given: The index of each indexed dimension.
        at: Where the indices' dimensions stand in the result.
        rank: How many there are.
    """
    strides = x.strides()
    if strides is None or any(index.buffer not in ctx.progressions for index in given.values()):
        return None
    shape = ctx.result_shape()
    steps: list[Size] = [0] * len(shape)
    offset = x.offset
    others = iter([i for i in range(len(shape)) if not at <= i < at + rank])
    for dim in range(x.rank):
        if dim not in given:
            steps[next(others)] = strides[dim]
            continue
        index = given[dim]
        start, pace = ctx.progressions[index.buffer]
        index_strides = index.strides()
        if index_strides is None:
            return None
        first = last = add(start, multiply(pace, index.offset))
        for i in range(index.rank):
            reach = multiply(pace, index_strides[i]) if index.dims[i] else 0
            place = at + rank - index.rank + i
            steps[place] = add(steps[place], multiply(strides[dim], reach))
            last = add(last, multiply(reach, add(index.size(i), -1)))
        if not all(_is_within(bound, x.size(dim)) for bound in (first, last)):
            return None
        offset = add(offset, multiply(strides[dim], first))
    return as_strided(x, shape, steps, offset)


def _is_within(position: Size, size: Size) -> bool:
    """Whether a position is known to be a place of a dimension."""
    if isinstance(position, int) and isinstance(size, int):
        return 0 <= position < size
    room = sympy.sympify(add(add(size, -1), multiply(position, -1)))
    return bool(sympy.sympify(position).is_nonnegative) and bool(room.is_nonnegative)


@lowers(aten.index.Tensor, aten._unsafe_index.Tensor)
def _index(ctx: Context, x: TensorView, indices: Sequence[TensorView | None]) -> TensorView:
    given = {dim: index for dim, index in enumerate(indices) if index is not None}
    if not given or x.is_empty or any(index.is_empty for index in given.values()):
        raise UnsupportedLowering("Indexing nothing is left to ATen.")
    rank = max(index.rank for index in given.values())
    dims = sorted(given)
    # The indices' dimensions stand where the first of them was, or in front if they are not neighbours.
    at = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0
    view = _as_view(ctx, x, given, at, rank)
    if view is not None:
        return view
    require_float_table(x, *given.values())
    x = ctx.strided(x)
    target = ctx.make_result()
    after = target.rank - at - rank
    aligned = []
    for index in given.values():
        for _ in range(after):
            index = index.insert(index.rank)
        aligned.append(index)
    nest, views = ctx.nest(target.shape, aligned)
    nodes = given_node(ctx, 1)
    held = dict(enumerate(nodes)) if isinstance(nodes, list | tuple) else {}
    lookups = {
        dim: Lookup(
            nest,
            nest.load(view),
            x.size(dim),
            wraps=True,
            is_certain=is_inside(held.get(dim), x.size(dim)),
        )
        for dim, view in zip(given, views, strict=True)
    }
    others = iter([i for i in range(target.rank) if not at <= i < at + rank])
    coordinates = [
        lookups[dim].coordinate if dim in lookups else nest.coordinate(next(others)) for dim in range(x.rank)
    ]
    nest.store(target, load_looked_up(nest, x, coordinates, list(lookups.values())).named(ctx.local))
    ctx.finish(nest)
    return target
