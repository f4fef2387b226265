"""Values and the positions, which are data, that they are for: what index_put, index_add, index_copy and scatter say.

All of them are one thing: iterations, of which each has a value, and a position along some of the result's dimensions;
along the others it stays where it is. `adding_up` adds the values there, `writing` writes them.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence

import torch

from longhand.capture.graph import Role
from longhand.lower.body import Size
from longhand.lower.builder import Handle
from longhand.lower.context import Context
from longhand.lower.lowerings.indexing import Lookup, all_in_range, given_node, is_inside
from longhand.lower.lowerings.viewing import wrap
from longhand.lower.nest import Coordinate, NestBuilder
from longhand.lower.sizes import same
from longhand.lower.unsupported import UnsupportedLowering
from longhand.lower.views import TensorView

POSITIONS = frozenset({torch.int64, torch.int32})  # bytes are a mask


@dataclasses.dataclass(frozen=True)
class Placed:
    """What is added or written, and where.

    Attributes:
        values: Each is one iteration's.
        indices: By dimension of the result, the position there: broadcast to the shape of the values.
        others: By each other dimension of the result, the dimension of the values that is the same.
        wraps: Whether negative positions count from the end.
        factor: Of the values.
        skipped: The position whose values are left out.
        nodes: By dimension, the node of the graph that holds the positions.
    """

    values: TensorView
    indices: Mapping[int, TensorView]
    others: Mapping[int, int]
    wraps: bool = False
    factor: float = 1
    skipped: int | None = None
    nodes: Mapping[int, object] = dataclasses.field(default_factory=dict)

    def times(self, factor: float) -> Placed:
        """The same of values that are multiplied first."""
        return dataclasses.replace(self, factor=factor)


def placed_by_indices(
    ctx: Context, x: TensorView, indices: Sequence[TensorView | None], values: TensorView
) -> Placed:
    """What ``x[indices] = values`` says: index_put."""
    given = {dim: index for dim, index in enumerate(indices) if index is not None}
    if not given:
        raise UnsupportedLowering("Where it writes is everywhere: ATen does it.")
    rank = max(index.rank for index in given.values())
    dims = sorted(given)
    # The indices' dimensions stand where the first of them was, or in front if they are not neighbours.
    at = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0
    rest = [dim for dim in range(x.rank) if dim not in given]
    sizes = [x.size(dim) for dim in rest]
    picked = _broadcast([index.shape for index in given.values()])
    space = (*sizes[:at], *picked, *sizes[at:])
    places = [place for place in range(len(space)) if not at <= place < at + rank]
    aligned = {dim: with_ones_after(index, len(space) - at - rank) for dim, index in given.items()}
    others = dict(zip(rest, places, strict=True))
    nodes = given_node(ctx, 1)
    held = dict(enumerate(nodes)) if isinstance(nodes, list | tuple) else {}
    return Placed(values.expand(space), aligned, others, wraps=True, nodes=held)


def placed_along(ctx: Context, x: TensorView, dim: int, index: TensorView, source: TensorView) -> Placed:
    """What index_add and index_copy say: slices along a dimension, each at a position."""
    if x.rank == 0 or index.rank != 1 or source.rank != x.rank:
        raise UnsupportedLowering("A position in one element is left to ATen.")
    dim = wrap(dim, x.rank)
    others = {i: i for i in range(x.rank) if i != dim}
    aligned = {dim: with_ones_after(index, x.rank - dim - 1)}
    return Placed(source, aligned, others, nodes={dim: given_node(ctx, 2)})


def placed_one_by_one(ctx: Context, x: TensorView, dim: int, index: TensorView, source: TensorView) -> Placed:
    """What scatter and scatter_add say: a position along a dimension for each element."""
    if x.rank == 0 or index.rank != x.rank or source.rank != x.rank:
        raise UnsupportedLowering("A position in one element is left to ATen.")
    dim = wrap(dim, x.rank)
    looked_at: TensorView | None = source  # where the index says nothing, no element is
    for i in range(x.rank):
        looked_at = looked_at and looked_at.narrow(i, 0, index.size(i))
    if looked_at is None:
        raise UnsupportedLowering("The part of the source that the index is for has no loops.")
    others = {i: i for i in range(x.rank) if i != dim}
    return Placed(looked_at, {dim: index}, others, nodes={dim: given_node(ctx, 2)})


def look_up(
    nest: NestBuilder,
    index: TensorView,
    dim: int,
    size: Size,
    placed: Placed,
    *,
    mask_word: str = Role.HAS_PLACE,
    along: Sequence[str] = (),
) -> Lookup:
    """A position along a dimension as an iteration finds it; `along` are the axes that run over the dimension."""
    return Lookup(
        nest,
        nest.load(index),
        size,
        wraps=placed.wraps,
        size_word="n_places",
        along=along,
        mask_word=mask_word,
        is_certain=is_inside(placed.nodes.get(dim), size),
    )


def places(
    nest: NestBuilder,
    lookups: Mapping[int, Lookup],
    others: Mapping[int, int],
    known: Mapping[int, Coordinate] = types.MappingProxyType({}),
) -> tuple[Handle | None, list[Coordinate]]:
    """Whether a value's positions are all in range, and where it goes, by dimension: to 0 if they are not.

    No condition where it always holds. Some positions are no data, but known.
    """
    is_there = all_in_range(lookups.values())
    coordinates = {dim: nest.coordinate(place) for dim, place in others.items()} | dict(known)
    for dim, lookup in lookups.items():
        at = lookup.position
        if is_there is not None:
            at = nest.body.where(is_there, at, 0).named(Role.PLACE)
        coordinates[dim] = Coordinate(values=((at.position, 1),))
    return is_there, [coordinates[dim] for dim in sorted(coordinates)]


def with_ones_after(index: TensorView, n_dims: int) -> TensorView:
    """The index with so many dimensions of size 1 behind its own."""
    for _ in range(n_dims):
        index = index.insert(index.rank)
    return index


def _broadcast(shapes: Sequence[tuple[Size, ...]]) -> tuple[Size, ...]:
    """The shape that several are broadcast to, which capture has seen to fit."""
    broadcast: list[Size] = []
    for place in range(1, max(map(len, shapes)) + 1):
        sizes = [shape[-place] for shape in shapes if len(shape) >= place]
        broadcast.insert(0, next((size for size in sizes if not same(size, 1)), 1))
    return tuple(broadcast)
