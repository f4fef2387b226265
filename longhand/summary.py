"""What a compilation tells about its result."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from longhand.clock import Timings
from longhand.lower.ir import Extern
from longhand.schedule.plan import Launch, PlanStep, Repeat, UnitPlan


@dataclasses.dataclass(frozen=True)
class LibraryCall:
    """A call that a library answers, not a kernel of ours.

    Attributes:
        target: ``aten.mm.default``.
        reason: Why it is no kernel; None where a library does it best.
        count: How often it is called.
    """

    target: str
    reason: str | None
    count: int


@dataclasses.dataclass(frozen=True)
class Summary:
    """What was generated.

    Attributes:
        out: The unit's folder.
        name: The class or function that it exports.
        files: Paths in it, without those that longhand keeps for itself (.base).
        kernels: (kernel's file, number of launches), in order of first launch.
        library_calls: What is left to libraries.
        n_refused: Fusions considered and not done.
        timings: Seconds by stage.
    """

    out: Path
    name: str
    files: tuple[str, ...]
    n_kernels: int
    n_launches: int
    library_calls: tuple[LibraryCall, ...]
    n_refused: int
    timings: Timings

    @property
    def fallbacks(self) -> tuple[LibraryCall, ...]:
        """Calls to a library that longhand has no lowering for."""
        return tuple(call for call in self.library_calls if call.reason)


def flat_steps(plan: UnitPlan) -> Iterator[PlanStep]:
    """The plan's steps with every repeat unrolled."""
    for step in plan.steps:
        if isinstance(step, Repeat):
            for run in step.runs:
                yield from run
        else:
            yield step


def summarize(plan: UnitPlan, out: Path, files: tuple[str, ...], timings: Timings) -> Summary:
    """The summary of a plan that was written."""
    steps = list(flat_steps(plan))
    calls: dict[tuple[str, str | None], int] = {}
    for step in steps:
        if isinstance(step, Extern):
            key = (str(step.target), step.reason)
            calls[key] = calls.get(key, 0) + 1
    return Summary(
        out=out,
        name=plan.program.graph.name,
        files=tuple(sorted(path for path in files if not path.startswith(".base/"))),
        n_kernels=len(plan.kernels),
        n_launches=sum(isinstance(step, Launch) for step in steps),
        library_calls=tuple(LibraryCall(target, reason, count) for (target, reason), count in calls.items()),
        n_refused=len(plan.refusals),
        timings=timings,
    )
