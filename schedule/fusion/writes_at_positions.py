"""Nests that write at the same positions, which are data: a step's keys and values, each into its cache.

They share nothing that is worth the name in bytes, a position; but each is so small that its launch is what it costs.
"""

from __future__ import annotations

from longhand.lower.ir import Index, Load, Nest, Store, arguments
from longhand.schedule.bodies import stores

_Positions = frozenset[tuple[str, Index]]


def write_at_the_same_positions(first: Nest, second: Nest) -> bool:
    """Whether all that two nests store is at positions that both read from the same memory."""
    positions = {_positions(nest, store) for nest in (first, second) for _, store in stores(nest)}
    return len(positions) == 1 and frozenset() not in positions


def stores_walked_alike(first: Nest, second: Nest) -> tuple[Index, Index] | None:
    """How each nest walks what it writes at a position; None if they do not write at the same ones."""
    if not write_at_the_same_positions(first, second):
        return None
    (_, one), (_, other) = stores(first)[0], stores(second)[0]
    return Index(0, one.index.axes), Index(0, other.index.axes)


def _positions(nest: Nest, store: Store) -> _Positions:
    """The elements that say where a store goes."""
    waiting = [place for place, _ in store.index.values]
    reached: set[int] = set()
    while waiting:
        place = waiting.pop()
        if place not in reached:
            reached.add(place)
            waiting += arguments(nest.body[place])
    read = [nest.body[place] for place in reached]
    return frozenset((load.buffer, load.index) for load in read if isinstance(load, Load))
