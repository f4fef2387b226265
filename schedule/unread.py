"""What a call makes and nothing reads: a random one stays for the numbers that it draws, its result has no name."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from longhand.lower.ir import Extern, View
from longhand.schedule.plan import Access, Launch, Repeat, UnitPlan, buffers_made, buffers_read, flat_steps

__all__ = ["kept_alone", "unread_buffers"]


def unread_buffers(plan: UnitPlan) -> frozenset[str]:
    """The buffers that no step reads or writes into, and that are no result."""
    read = {result.buffer for result in plan.results if isinstance(result, View)}
    read |= {size.node for size in plan.program.graph.data_sizes}
    made: set[str] = set()
    for step in plan.steps:
        read.update(buffers_read(step))
        for inner in chain(*step.runs) if isinstance(step, Repeat) else (step,):
            made.update(buffers_made(inner))
    return frozenset(made - read)


def kept_alone(plan: UnitPlan) -> frozenset[tuple[str, ...]]:
    """The operations of the launches whose results no other call reads: they are made to be returned, or kept."""
    calls = [step for step in flat_steps(plan.steps) if isinstance(step, Launch | Extern)]
    n_named = Counter(name for step in calls for name in {*buffers_read(step)})
    kept = set[tuple[str, ...]]()
    for step in calls:
        if isinstance(step, Launch) and not plan.kernels[step.kernel].schedule.is_over_lists:
            passed = (one for one in plan.kernels[step.kernel].pointers if not one.scratch)
            pairs = zip(passed, step.buffers, strict=True)
            made = [name for pointer, name in pairs if pointer.access is not Access.READ]
            kept |= {step.origins} if all(n_named[name] <= 1 for name in made) else set()
    return frozenset(kept)
