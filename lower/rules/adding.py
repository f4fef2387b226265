"""What a nest that adds up at positions that are data keeps to, so that each value is added once and no total is seen
before it is whole."""

from __future__ import annotations

from longhand.lower.ir import Load, Nest, Reduce, Store, domains


def adding_problem(nest: Nest) -> str | None:
    """Why a nest does not add as it says, or None.

    Iterations share an element that they add to, in whatever order. So nothing else in the nest may touch the buffer.
    An iteration adds once: an axis that the place does not vary over would be lanes that add what one has added, or
    are no lanes at all, and what a reduction leaves is there once for each row, in loops that walk it as they like.
    """
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
