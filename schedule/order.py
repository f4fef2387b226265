"""The order in which steps run: the user's own, as far as the dependencies allow.

A fused step stands where the last of its nodes stood, so that an unrelated edit moves nothing. Only where it saves a
good part of the peak of memory, each step runs just before its first reader instead.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from longhand.lower.ir import Buffer, BufferKind, Extern, Step
from longhand.schedule.bodies import origins
from longhand.schedule.dependencies import effects, predecessors
from longhand.schedule.sizes import Hints, guess, product

WORTH_REORDERING = 0.7  # of the peak that the user's order has


def order_steps(
    steps: Sequence[Step],
    position_of: Mapping[str, int],
    buffers: Mapping[str, Buffer],
    kept: frozenset[str],
    hints: Hints,
) -> list[Step]:
    """The steps in an order that respects the dependencies.

    Args:
        steps: In any such order.
        position_of: Where each node of the captured graph stands in it.
        buffers: Of the program.
        kept: Buffers that live to the end.
        hints: For sizes.
    """
    as_written = _beside_readers(_as_written(steps, position_of), buffers)
    on_demand = _on_demand(as_written)
    sizes = {
        name: guess(product(buffer.shape), hints) * buffer.dtype.itemsize
        for name, buffer in buffers.items()
        if buffer.kind is BufferKind.INTERMEDIATE
    }
    saves = peak_bytes(on_demand, sizes, kept) < WORTH_REORDERING * peak_bytes(as_written, sizes, kept)
    return on_demand if saves else as_written


def peak_bytes(steps: Sequence[Step], sizes: Mapping[str, int], kept: frozenset[str]) -> int:
    """The most bytes alive at once if every buffer goes after its last use."""
    touched = [effects(step) for step in steps]
    last = {name: number for number, one in enumerate(touched) for name in (*one.reads, *one.writes)}
    alive: set[str] = set()
    now = highest = 0
    for number, one in enumerate(touched):
        for name in one.writes:
            if name in sizes and name not in alive:
                alive.add(name)
                now += sizes[name]
        highest = max(highest, now)
        for name in {*one.reads, *one.writes}:
            if name in alive and last[name] == number and name not in kept:
                alive.discard(name)
                now -= sizes[name]
    return highest


def _as_written(steps: Sequence[Step], position_of: Mapping[str, int]) -> list[Step]:
    """Among the steps that can run, always the one that stands first in the user's code."""
    waits = predecessors(steps)
    after: list[list[int]] = [[] for _ in steps]
    for number, before in enumerate(waits):
        for other in before:
            after[other].append(number)
    places = [_place(step, position_of) for step in steps]
    ready = [(places[number], number) for number in range(len(steps)) if not waits[number]]
    heapq.heapify(ready)
    ordered: list[Step] = []
    open_waits = [len(before) for before in waits]
    while ready:
        _, number = heapq.heappop(ready)
        ordered.append(steps[number])
        for later in after[number]:
            open_waits[later] -= 1
            if open_waits[later] == 0:
                heapq.heappush(ready, (places[later], later))
    return ordered


def _beside_readers(steps: Sequence[Step], buffers: Mapping[str, Buffer]) -> list[Step]:
    """What one step alone reads, and is made of weights alone, stands just before that step.

    Autocast makes a weight of another type before it does so to the input: a norm that is fused with this would stand
    between a layer's weights and the layer.
    """
    touched = [effects(step) for step in steps]
    readers: dict[str, set[int]] = {}
    for number, one in enumerate(touched):
        for name in (*one.reads, *one.writes):
            readers.setdefault(name, set()).add(number)
    written = {name for one in touched for name in one.writes}
    moved: dict[int, list[int]] = {}
    for number, one in enumerate(touched):
        is_of_weights = bool(one.reads) and all(
            buffers[name].kind is BufferKind.WEIGHT and name not in written for name in one.reads
        )
        own = {other for name in one.writes for other in readers[name]} - {number}
        if is_of_weights and len(own) == 1 and (reader := own.pop()) > number:
            moved.setdefault(reader, []).append(number)
    beside = {number for several in moved.values() for number in several}
    order = [
        before
        for number in range(len(steps))
        if number not in beside
        for before in (*moved.get(number, ()), number)
    ]
    return [steps[number] for number in order]


def _on_demand(steps: Sequence[Step]) -> list[Step]:
    """Each step as late as possible: what the first result needs, then the result, and so on."""
    waits = predecessors(steps)
    is_needed = {other for before in waits for other in before}
    order: list[int] = []
    seen: set[int] = set()
    for root in range(len(steps)):
        stack = [] if root in is_needed else [(root, False)]
        while stack:
            number, expanded = stack.pop()
            if expanded:
                order.append(number)
            elif number not in seen:
                seen.add(number)
                stack.append((number, True))
                stack += [(other, False) for other in sorted(waits[number], reverse=True)]
    return [steps[number] for number in order]


def nodes_of(step: Step) -> tuple[str, ...]:
    """The nodes of the captured graph that a step computes; a contraction's are those of its call."""
    return (step.origin,) if isinstance(step, Extern) else origins(step.body)


def _place(step: Step, position_of: Mapping[str, int]) -> int:
    return max((position_of.get(name, -1) for name in nodes_of(step)), default=-1)
