"""A value that one nest stores in two layouts is stored in one, where all that read the other can read that one.

A gradient of heads is laid out once more for the matrix product of its weight; the sum of its columns, for the bias,
has read it as it was. It reads the copy as well: then nothing else is written, and no memory is held for it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence, Set

from longhand.lower.ir import Axis, Buffer, BufferKind, Index, Load, Nest, Step, Store
from longhand.schedule.bodies import (
    loads,
    make_index,
    rewrite,
    sizes_of,
    stores,
    substitute,
    without_stores,
)
from longhand.schedule.dependencies import effects
from longhand.schedule.fusion.joining import absorb
from longhand.schedule.simplification import simplify_nest
from longhand.schedule.sizes import rank, same, times


def store_in_one_layout(
    steps: Iterable[Step], buffers: Mapping[str, Buffer], kept: Set[str]
) -> tuple[Step, ...]:
    """The steps with fewer stores, in the same order.

    Args:
        steps: In an order that respects the dependencies.
        buffers: Of the program.
        kept: Buffers that the caller sees: each is written as it is.
    """
    made = list(steps)
    writers: dict[str, int] = {}
    for step in made:
        for buffer in effects(step).writes:
            writers[buffer] = writers.get(buffer, 0) + 1
    once = {name for name, count in writers.items() if count == 1}
    for number, step in enumerate(made):
        if not isinstance(step, Nest):
            continue
        for dropped, left in _twice(step, buffers, once):
            readers = [at for at, other in enumerate(made) if dropped.buffer in effects(other).reads]
            if dropped.buffer in kept or not readers:
                continue
            turned = _reading_other(dropped, left, step, [made[at] for at in readers], buffers)
            if turned is None:
                continue
            for at, reader in zip(readers, turned, strict=True):
                made[at] = reader
            made[number] = step = simplify_nest(without_stores(step, dropped.__eq__))
            break
    return tuple(made)


def _twice(nest: Nest, buffers: Mapping[str, Buffer], once: Set[str]) -> list[tuple[Store, Store]]:
    """Pairs of plain stores of one value in one dtype, either of which would do."""
    plain = [store for _, store in stores(nest) if store.mask is None and not store.adds]
    plain = [store for store in plain if store.buffer in once and not store.is_at_positions]
    return [
        (one, other)
        for one, other in itertools.permutations(plain, 2)
        if one.value == other.value
        and buffers[one.buffer].dtype is buffers[other.buffer].dtype
        and buffers[one.buffer].kind is buffers[other.buffer].kind is BufferKind.INTERMEDIATE
    ]


def _reading_other(
    dropped: Store, left: Store, nest: Nest, readers: Sequence[Step], buffers: Mapping[str, Buffer]
) -> list[Nest] | None:
    """The readers, each reading what is left; None if one of them cannot, or would have to stride."""
    turned: list[Nest] = []
    for reader in readers:
        if not isinstance(reader, Nest):
            return None
        before = [load for _, load in loads(reader) if load.buffer == dropped.buffer]
        taken = Load(left.buffer, left.index, before[0].dtype)
        copy = _with_whole_axes(Nest(nest.axes, (taken, dataclasses.replace(dropped, value=0))))
        other = absorb(copy, dropped.buffer, reader, buffers)
        if isinstance(other, str) or len(other.axes) != len(reader.axes):
            return None
        after = [load for _, load in loads(other) if load.buffer == left.buffer]
        if {_innermost(load.index) for load in before} != {_innermost(load.index) for load in after}:
            return None
        turned.append(other)
    return turned


def _with_whole_axes(copy: Nest) -> Nest:
    """The copy with axes as one that are pieces of one in both layouts: pairs, which the rest of the nest walks."""
    sizes = sizes_of(copy)
    indices = [dict(value.index.axes) for value in copy.body if isinstance(value, Load | Store)]
    for outer, inner in itertools.permutations(sizes, 2):
        if all(
            outer in index and inner in index and same(index[outer], times(index[inner], sizes[inner]))
            for index in indices
        ):
            return _with_whole_axes(_as_one(copy, outer, inner))
    return copy


def _as_one(copy: Nest, outer: str, inner: str) -> Nest:
    """The copy with the two axes as one long one, under the name of the inner."""
    sizes = sizes_of(copy)
    longer = Axis(inner, times(sizes[outer], sizes[inner]))
    axes = tuple(longer if axis.name == inner else axis for axis in copy.axes if axis.name != outer)
    without_outer = functools.partial(substitute, replacement={outer: make_index(0, [])})
    identity = range(len(copy.body))
    return Nest(axes, tuple(rewrite(value, identity, without_outer) for value in copy.body))


def _innermost(index: Index) -> str | None:
    """The axis along which an access lies side by side."""
    return min(index.axes, key=lambda term: abs(rank(term[1])))[0] if index.axes else None
