"""What a nest that adds up or writes at positions that are data keeps to, so that each value is added once and no total
is seen before it is whole, and that no element is written twice."""

from __future__ import annotations

from longhand.lower.ir import Load, Nest, Reduce, Store, domains


def adding_problem(nest: Nest) -> str | None:
    """Why a nest does not add as it says, or None.

    Iterations share an element that they add to, in whatever order. So nothing else in the nest may touch the buffer.
    An iteration adds once: an axis that the place does not vary over would be lanes that add what one has added, or
    are no lanes at all, and what a reduction leaves is there once for each row, in loops that walk it as they like.
    """
    if (problem := _writing_problem(nest)) is not None:
        return problem
    added = [(position, v) for position, v in enumerate(nest.body) if isinstance(v, Store) and v.adds]
    if not added:
        return None
    if any(isinstance(value, Reduce) for value in nest.body):
        return "what adds up at positions that are data reduces nothing besides"
    everything = {axis.name for axis in nest.axes}
    spans = domains(nest.body)
    for position, store in added:
        reached = {axis for axis, _ in store.index.axes}.union(*(spans[at] for at, _ in store.index.values))
        if reached != everything:
            return f"{store.buffer} would be added to another number of times"
        others = (v for at, v in enumerate(nest.body) if at != position and isinstance(v, Load | Store))
        if any(other.buffer == store.buffer for other in others):
            return f"{store.buffer} is touched where it is added up"
    return None


def _writing_problem(nest: Nest) -> str | None:
    """Why what a nest writes at positions that are data could be written twice, or read beside that, or None."""
    everything = {axis.name for axis in nest.axes}
    for position, store in enumerate(nest.body):
        if not isinstance(store, Store) or store.adds or not store.is_at_positions:
            continue
        if {axis for axis, _ in store.index.axes} != everything:
            return f"{store.buffer} could be written twice in one place"
        others = (v for at, v in enumerate(nest.body) if at != position and isinstance(v, Load | Store))
        if any(other.buffer == store.buffer for other in others):
            return f"{store.buffer} is touched where it is written at positions that are data"
    return None
