"""Steps that read nothing, or only what such steps made: what they make is known before the call."""

from __future__ import annotations

from collections.abc import Iterator

from longhand.lower.ir import Extern
from longhand.schedule.dependencies import effects
from longhand.schedule.plan import Access, KernelPlan, Launch, PlanStep, Repeat, UnitPlan


def made_of_nothing(plan: UnitPlan) -> frozenset[str]:
    """The buffers that a kernel without input writes, whole or in part, and what is made of these alone.

    A library call that reads nothing is none of them: ``torch.zeros(...)`` is as good as a constant.
    """
    buffers: set[str] = set()
    for step in _steps(plan):
        if isinstance(step, Launch):
            if buffers.issuperset(_read(step, plan.kernels[step.kernel])):
                buffers.update(buffer for group in step.groups for buffer in group.buffers)
        elif isinstance(step, Extern):
            touched = effects(step)
            if touched.reads and buffers.issuperset(touched.reads):
                buffers.update(touched.writes)
    return frozenset(buffers)


def _read(launch: Launch, kernel: KernelPlan) -> Iterator[str]:
    pointers = [pointer for pointer in kernel.pointers if not pointer.scratch]
    for group in launch.groups:
        for pointer, buffer in zip(pointers, group.buffers, strict=True):
            if pointer.access is not Access.WRITE:
                yield buffer


def _steps(plan: UnitPlan) -> Iterator[PlanStep]:
    for step in plan.steps:
        if isinstance(step, Repeat):
            yield from (one for run in step.runs for one in run)
        else:
            yield step
