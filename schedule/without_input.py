"""Launches that read nothing: what they write is known before the call."""

from __future__ import annotations

from collections.abc import Iterator

from longhand.schedule.plan import Access, Launch, PlanStep, Repeat, UnitPlan


def made_of_nothing(plan: UnitPlan) -> frozenset[str]:
    """The buffers that a kernel without input writes, whole or in part."""
    return frozenset(
        buffer
        for launch in _launches(plan)
        if all(
            pointer.access is Access.WRITE
            for pointer in plan.kernels[launch.kernel].pointers
            if not pointer.scratch
        )
        for group in launch.groups
        for buffer in group.buffers
    )


def _launches(plan: UnitPlan) -> Iterator[Launch]:
    for step in plan.steps:
        steps: list[PlanStep] = (
            [one for run in step.runs for one in run] if isinstance(step, Repeat) else [step]
        )
        yield from (one for one in steps if isinstance(one, Launch))
