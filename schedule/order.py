"""The order in which steps run: the user's own, as far as the dependencies allow.

A fused step stands where the last of its nodes stood, so that an unrelated edit moves nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from longhand.lower.ir import Extern, Step
from longhand.schedule.bodies import origins
from longhand.schedule.dependencies import predecessors


def order_steps(steps: Sequence[Step], position_of: Mapping[str, int]) -> list[Step]:
    """The steps in the order of the user's statements.

    Args:
        steps: In any order that respects the dependencies.
        position_of: Where each node of the captured graph stands in it.
    """
    waits = predecessors(steps)
    after: list[list[int]] = [[] for _ in steps]
    for number, before in enumerate(waits):
        for other in before:
            after[other].append(number)
    ready = [(_place(step, position_of), number) for number, step in enumerate(steps) if not waits[number]]
    heapq.heapify(ready)
    found: list[Step] = []
    open_waits = [len(before) for before in waits]
    while ready:
        _, number = heapq.heappop(ready)
        found.append(steps[number])
        for later in after[number]:
            open_waits[later] -= 1
            if open_waits[later] == 0:
                heapq.heappush(ready, (_place(steps[later], position_of), later))
    return found


def _place(step: Step, position_of: Mapping[str, int]) -> int:
    names = (step.origin,) if isinstance(step, Extern) else origins(step.body)
    return max((position_of.get(name, -1) for name in names), default=-1)
