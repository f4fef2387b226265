"""Values written at positions that are data, into a tensor that the call changes: a step of a key-value cache.

``cache[:, :, position] = k`` writes one slice, or one for each sequence (``cache[rows, :, lengths] = k``). ATen's call
takes as long as it takes to prepare it: an element's place is known only when the position is. Here it is one store
(`Store.index` has the position as a value), which takes in what makes the values, as any nest does.

Once each. No two iterations may write one element, for a kernel has no order in which the last would win. So every
dimension of the values must also be a dimension of what is written, beside those that the positions are along: all
that is written at positions is a slice for each. What writes several slices along one dimension (a prompt at once)
stays ATen's call.

Range. Eager stops at a position that is out of range: on the CPU with an IndexError, so there ATen writes unless
positions are certain to be in range; on CUDA at an assertion of the device's. A kernel cannot, and must not write
there: it writes NaN at position 0 of the same slice instead, which nobody else writes, and which shows. Whole numbers
have no such value and are left to ATen, unless their positions are certain. ``index_put`` counts negative positions
from the end, the others do not.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from longhand.lower.context import Context
from longhand.lower.lowerings.indexing import is_inside
from longhand.lower.nest import Coordinate, NestBuilder
from longhand.lower.sizes import add, multiply, same
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
)

aten = torch.ops.aten


def write_at_positions(ctx: Context, base: TensorView, args: list[Any]) -> None:
    """Writes what the node puts into the base, in one nest.

    Args:
        ctx: The program and the node.
        base: What is written into, where it lies. No two of its elements are one.
        args: The node's arguments in the order of its schema.

    Raises:
        UnsupportedLowering: ATen does it.
    """
    placed = _placed(ctx, base, args)
    types = {base.dtype, placed.values.dtype}
    if not types <= LOOP_DTYPES or len(types) > 1:
        raise UnsupportedLowering("Only values of the same type are stored by loops of ours.")
    if any(index.dtype not in POSITIONS for index in placed.indices.values()):
        raise UnsupportedLowering("Only integer positions are loops of ours.")
    if base.is_empty or placed.values.is_empty or base.strides() is None:
        raise UnsupportedLowering("Writing nothing is left to ATen.")
    runs = {dim: index for dim, index in placed.indices.items() if _counts_on(ctx, base, placed, dim)}
    _check_once_each(placed, runs)
    unsure = [dim for dim in placed.indices if not is_inside(placed.nodes.get(dim), base.size(dim))]
    if unsure and not ctx.is_cuda:
        raise UnsupportedLowering("A position out of range is an error: ATen says so.")
    if unsure and not base.dtype.is_floating_point:
        raise UnsupportedLowering("Whole numbers have no value that shows a position out of range.")
    looked_up = {dim: index for dim, index in placed.indices.items() if dim not in runs}
    nest, (values, *views) = ctx.nest(placed.values.shape, [placed.values, *looked_up.values()])
    lookups = {
        dim: look_up(nest, view, dim, base.size(dim), placed, mask_word="in_cache")
        for dim, view in zip(looked_up, views, strict=True)
    }
    is_there, coordinates = places(
        nest, lookups, placed.others, {dim: _run(ctx, nest, index) for dim, index in runs.items()}
    )
    value = nest.load(values)
    if is_there is not None:
        value = nest.body.where(is_there, value, math.nan)
    nest.store_at(base, coordinates, value)
    ctx.finish(nest)


def _placed(ctx: Context, base: TensorView, args: list[Any]) -> Placed:
    """What the node writes, and where."""
    target = ctx.node.target
    if target is aten.index_put.default:
        if len(args) > 3 and args[3]:
            raise UnsupportedLowering("What it writes is added up: ATen does it.")
        return placed_by_indices(ctx, base, args[1], args[2])
    if target is aten.index_copy.default:
        return placed_along(ctx, base, args[1], args[2], args[3])
    if target is aten.scatter.src:
        return placed_one_by_one(ctx, base, args[1], args[2], args[3])
    raise UnsupportedLowering("What it writes depends on what is there: ATen does it.")


def _counts_on(ctx: Context, base: TensorView, placed: Placed, dim: int) -> bool:
    """Whether the positions along a dimension are a range (an arange) along one dimension of the values, inside it."""
    index = placed.indices[dim]
    is_range = index.buffer in ctx.progressions and index.strides() is not None
    return (
        is_range
        and is_inside(placed.nodes.get(dim), base.size(dim))
        and sum(not same(size, 1) for size in index.shape) == 1
        and all(atoms for size, atoms in zip(index.shape, index.dims, strict=True) if not same(size, 1))
    )


def _check_once_each(placed: Placed, runs: dict[int, TensorView]) -> None:
    """Declines what could write an element twice."""
    rank = placed.values.rank
    own = set(placed.others.values())
    for index in runs.values():
        own |= {rank - index.rank + i for i in range(index.rank) if not same(index.size(i), 1)}
    if any(place not in own and not same(placed.values.size(place), 1) for place in range(rank)):
        raise UnsupportedLowering("Several slices may be for one place: ATen writes them in their order.")


def _run(ctx: Context, nest: NestBuilder, index: TensorView) -> Coordinate:
    """Where an iteration is along a dimension whose positions are a range."""
    start, pace = ctx.progressions[index.buffer]
    strides = index.strides()
    assert strides is not None
    (own,) = [i for i in range(index.rank) if not same(index.size(i), 1)]
    along = nest.coordinate(nest.rank - index.rank + own).times(multiply(pace, strides[own]))
    return along.plus(add(start, multiply(pace, index.offset)))
