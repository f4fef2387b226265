"""What a call makes and nothing reads: a random one stays for the numbers that it draws, its result has no name."""

from __future__ import annotations

from itertools import chain

from longhand.lower.ir import View
from longhand.schedule.plan import Repeat, UnitPlan, buffers_made, buffers_read

__all__ = ["unread_buffers"]


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
