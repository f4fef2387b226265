"""In which order a nest makes results that are made of the same: by what they are, not by who is asked for first.

A backward pass that computes a table of angles again asks for sin before cos, the forward pass for cos before sin: both
are one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from longhand.lower.ir import Constant, Load, Nest, Pointwise, Scalar, Store, Value, arguments
from longhand.schedule.kernels.axis_collapsing import with_arguments
from longhand.schedule.simplification import simplify_nest


def results_in_order(nest: Nest) -> Nest:
    """The nest, neighbouring stores of as many steps on the same tensors sorted by what these steps do."""
    found = [(position, value) for position, value in enumerate(nest.body) if isinstance(value, Store)]
    if len(found) < 2 or any(store.adds or store.mask is not None for _, store in found):
        return nest
    told = [_told(store, nest.body) for _, store in found]
    order = list(range(len(found)))
    for end in range(len(order) - 1, 0, -1):
        for place in range(end):
            one, other = told[order[place]], told[order[place + 1]]
            if one[0] == other[0] and one[1] > other[1]:
                order[place], order[place + 1] = order[place + 1], order[place]
    if order == sorted(order):
        return nest
    head = nest.body[: found[0][0]]
    if any(not isinstance(value, Store) for value in nest.body[len(head) :]):
        return nest
    return simplify_nest(Nest(nest.axes, (*head, *(found[place][1] for place in order))))


def with_stores_in_order(nest: Nest, stores: Sequence[int]) -> Nest:
    """Loads, then what the stores need of them, store by store, then the stores: at these positions, in this order."""
    visited: dict[int, None] = {}

    def visit(position: int) -> None:
        if position not in visited:
            for argument in arguments(nest.body[position]):
                visit(argument)
            visited[position] = None

    for position in stores:
        for argument in arguments(nest.body[position]):
            visit(argument)
    free = [p for p in visited if isinstance(nest.body[p], Load) and not arguments(nest.body[p])]
    rest = [position for position in visited if position not in free]
    order = [*free, *rest, *stores]
    place = {position: number for number, position in enumerate(order)}
    return Nest(nest.axes, tuple(with_arguments(nest.body[p], place.__getitem__) for p in order))


def _told(store: Store, body: Sequence[Value]) -> tuple[tuple[object, ...], str]:
    """What results are compared only within (where they lie, what they read, in how many steps), and the steps."""
    steps: list[str] = []
    read: set[str] = set()
    seen: set[int] = set()
    waiting = [store.value]
    while waiting:
        position = waiting.pop()
        if position in seen:
            continue
        seen.add(position)
        value = body[position]
        if isinstance(value, Load):
            read.add(value.buffer)
        elif isinstance(value, Pointwise):
            steps.append(value.op.value)
        elif isinstance(value, Constant | Scalar):
            steps.append(repr(value.value))
        waiting += arguments(value)
    return (store.index, frozenset(read), len(seen)), " ".join(steps)
