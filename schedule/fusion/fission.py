"""Two things that fusion put side by side are two kernels again where one would be more than a person reads.

Fusion joins what reads the same: the backward passes of two batch norms whose results were added up read the same
gradient. Apart, each computes what they share by itself, and both may turn out to be one kernel with two calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longhand.lower.ir import Load, Nest, Step, Store, Value, arguments, domains
from longhand.schedule.bodies import reduced_axes, rewrite, stores
from longhand.schedule.fusion.legality import depends_on_reduction
from longhand.schedule.simplification import simplify_nest

MOST_TENSORS = 14  # of a kernel that walks its rows again after a reduction


def split_wide_nests(steps: Sequence[Step], position_of: Mapping[str, int]) -> list[Step]:
    """The steps, those of too many tensors in the parts that have nothing but what they read in common.

    Args:
        steps: What fusion left.
        position_of: The place of each node in the program's graph.
    """
    split_steps: list[Step] = []
    for step in steps:
        if isinstance(step, Nest) and _is_too_much(step):
            split_steps += _parts(step, position_of)
        else:
            split_steps.append(step)
    return split_steps


def _is_too_much(nest: Nest) -> bool:
    tensors = {value.buffer for value in nest.body if isinstance(value, Load | Store)}
    return len(tensors) > MOST_TENSORS and _walks_again(nest)


def _walks_again(nest: Nest) -> bool:
    """Whether elements of a row are stored that depend on a reduction of the row."""
    reduced, late, axes = reduced_axes(nest), depends_on_reduction(nest.body), domains(nest.body)
    return any(late[position] and axes[position] & reduced for position, _ in stores(nest))


def _parts(nest: Nest, position_of: Mapping[str, int]) -> list[Nest]:
    """The nest for each group of its stores; the nest alone where there is but one group."""
    read = {value.buffer for value in nest.body if isinstance(value, Load)}
    written = {store.buffer for _, store in stores(nest)}
    groups = _groups(nest, position_of)
    if len(groups) < 2 or read & written:
        return [nest]
    return [_of_stores(nest, group) for group in groups]


def _groups(nest: Nest, position_of: Mapping[str, int]) -> list[list[int]]:
    """Stores of the same tensors, those aside that everything is stored from.

    What is stored from nothing else goes with what stands beside it in the graph: a norm's bias with its weight.
    """
    needs = {position: _loaded(nest, position) for position, _ in stores(nest)}
    shared = frozenset.intersection(*needs.values())
    groups: list[tuple[frozenset[str], list[int]]] = []
    for position, loaded in needs.items():
        own = loaded - shared
        near = [group for group in groups if group[0] & own]
        if own:
            groups = [group for group in groups if group not in near]
            members = [member for group in near for member in group[1]]
            groups.append((own.union(*(group[0] for group in near)), [*members, position]))
    together = [members for _, members in groups]
    places = {position: position_of.get(store.buffer, -1) for position, store in stores(nest)}
    own_places = [[places[member] for member in members] for members in together]
    for position in needs:
        if not needs[position] - shared and together:
            gaps = [min(abs(place - places[position]) for place in own) for own in own_places]
            together[gaps.index(min(gaps))].append(position)
    return together


def _of_stores(nest: Nest, chosen: Sequence[int]) -> Nest:
    """The nest with these stores alone, its values in the order in which they are needed.

    So parts that do the same are the same.
    """
    positions: dict[int, int] = {}
    body: list[Value] = []
    waiting = list(reversed(chosen))
    while waiting:
        current = waiting[-1]
        missing = [a for a in arguments(nest.body[current]) if a not in positions]
        if missing and current not in positions:
            waiting += reversed(missing)
            continue
        waiting.pop()
        if current not in positions:
            positions[current] = len(body)
            body.append(rewrite(nest.body[current], positions))
    return simplify_nest(Nest(nest.axes, tuple(body)))


def _loaded(nest: Nest, position: int) -> frozenset[str]:
    """The buffers that a store's value is computed from."""
    waiting, seen = [position], set()
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            waiting += arguments(nest.body[current])
    return frozenset(value.buffer for place in seen if isinstance(value := nest.body[place], Load))
