"""Two nests as one: axes unified, bodies one after the other, values handed over instead of stored and loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from longhand.lower.ir import Buffer, Index, Load, Nest, Store, Value
from longhand.schedule.bodies import loads, reduced_axes, rewrite, stores, without_stores
from longhand.schedule.dependencies import effects
from longhand.schedule.fusion.inline import inline
from longhand.schedule.fusion.legality import fused_nest_problem, memory_problem, size_problem
from longhand.schedule.fusion.loop_alignment import Aligned, align, align_leftovers, disjoint
from longhand.schedule.fusion.store_to_load import forward_store
from longhand.schedule.fusion.writes_at_positions import stores_walked_alike
from longhand.schedule.simplification import simplify_nest
from longhand.schedule.sizes import product, rank


def join(first: Nest, second: Nest, buffers: Mapping[str, Buffer], dead: frozenset[str]) -> Nest | str:
    """Both nests as one, or why they cannot be.

    Args:
        first: Comes before `second`; may make buffers that `second` reads.
        second: The other.
        buffers: Of the program.
        dead: Buffers that nobody would read any more: their stores are left out.
    """
    merged = side_by_side(first, second, buffers, dead)
    return merged if isinstance(merged, str) else fused_nest_problem(merged) or merged


def side_by_side(
    first: Nest, second: Nest, buffers: Mapping[str, Buffer], dead: frozenset[str]
) -> Nest | str:
    """As `join`, but whether one kernel can do it all is left to the caller."""
    for one, other in ((first, second), (second, first)):
        for _, store in stores(one):
            if store.adds and store.buffer in {*effects(other).reads, *effects(other).writes}:
                return f"{store.buffer} is whole only when all is added up"
    state = _align_loops(first, second)
    if isinstance(state, str):
        return state
    joined = _concatenate(state, buffers)
    if isinstance(joined, str):
        return joined
    return simplify_nest(without_stores(joined, lambda store: store.buffer in dead))


def absorb(producer: Nest, buffer: str, consumer: Nest, buffers: Mapping[str, Buffer]) -> Nest | str:
    """The consumer that computes by itself what it would load from `buffer`, or why it cannot."""
    joined = inline(producer, buffer, consumer, buffers)
    if isinstance(joined, str):
        return joined
    cleaned = simplify_nest(joined)
    return size_problem(cleaned) or memory_problem(cleaned) or cleaned


def _align_loops(first: Nest, second: Nest) -> Aligned | str:
    """Puts the axes of both in relation, through the buffer that ties them first of all, then through the others."""
    state = disjoint(first, second)
    tied = False
    for left, right in _ties(first, second):
        # Indices are looked up again: an earlier alignment may have split their axes.
        step = align(state, _index(state.left, left), _index(state.right, right))
        if step is not None:
            state, tied = step, True
    walked = stores_walked_alike(state.left, state.right)
    step = align(state, *walked) if walked is not None else None
    if step is not None:
        state, tied = step, True
    if not tied:
        return "no tensor that they share is walked alike by both"
    return _align_leftovers(state)


def _ties(first: Nest, second: Nest) -> Iterator[tuple[int, int]]:
    """Pairs of accesses (by position) to a shared buffer: what is handed over first, larger ones first."""
    made = {store.buffer: position for position, store in stores(first)}
    size = {axis.name: axis.size for axis in second.axes}

    def volume(load: Load) -> int:
        return rank(product(size[axis] for axis, _ in load.index.axes))

    taking = sorted(loads(second), key=lambda pair: -volume(pair[1]))
    for position, load in taking:
        if load.buffer in made:
            yield made[load.buffer], position
    for position, load in taking:
        for other, left in loads(first):
            if left.buffer == load.buffer:
                yield other, position
    for position, store in stores(second):
        for other, access in enumerate(first.body):
            if isinstance(access, Load | Store) and access.buffer == store.buffer:
                yield other, position


def _index(nest: Nest, position: int) -> Index:
    value = nest.body[position]
    assert isinstance(value, Load | Store)
    return value.index


def _align_leftovers(state: Aligned) -> Aligned | str:
    """Matches the loops that only one of both walks so far: a row sum's columns and those of what reads the sum."""
    left = [axis.name for axis in state.left.axes if axis.name not in state.common]
    right = [axis.name for axis in state.right.axes if axis.name not in state.common]
    if not left or not right:
        return state
    local = reduced_axes(state.left)
    if not set(left) <= local:
        return _align_results(state) or "each has loops that the other lacks"
    matched = align_leftovers(state, left, right)
    return matched or "the loops that are left over have different sizes"


def _align_results(state: Aligned) -> Aligned | None:
    """Matches the loops along which both only repeat what they share: cos and sin of one table, equally wide."""
    for _, left in stores(state.left):
        for _, right in stores(state.right):
            matched = align(state, left.index, right.index)
            if matched is not None and {axis.name for axis in matched.left.axes} == matched.common:
                return matched
    return None


def _concatenate(state: Aligned, buffers: Mapping[str, Buffer]) -> Nest | str:
    """The bodies one after the other; a load of what the first has stored becomes the value itself."""
    body: list[Value] = list(state.left.body)
    stored = {store.buffer: store for _, store in stores(state.left)}
    positions: list[int] = []
    for value in state.right.body:
        moved = rewrite(value, positions)
        if not isinstance(moved, Load) or moved.buffer not in stored:
            positions.append(len(body))
            body.append(moved)
            continue
        store = stored[moved.buffer]
        if store.index != moved.index or store.mask is not None:
            return f"{moved.buffer} is read at another place than where it is made"
        positions.append(forward_store(body, store.value, moved, buffers[moved.buffer]))
    known = {axis.name for axis in state.right.axes}
    axes = (*state.right.axes, *(axis for axis in state.left.axes if axis.name not in known))
    return Nest(axes, tuple(body))
