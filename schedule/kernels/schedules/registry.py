"""The list of kernel schedules. The first that applies is taken."""

from __future__ import annotations

from collections.abc import Iterable

from longhand.schedule.kernels.kernel_plan import Tunable
from longhand.schedule.kernels.schedules import (
    columns,
    elementwise,
    few_rows,
    foreach,
    rows_and_columns,
    rows_looped,
    rows_persistent,
    rows_split,
    transposed,
    windows,
)
from longhand.schedule.kernels.schedules.entry import Candidate, KernelWork, Loops, ScheduleEntry
from longhand.schedule.targets import TargetFacts

SCHEDULES: tuple[ScheduleEntry, ...] = (
    foreach.ENTRY,
    elementwise.ENTRY,
    transposed.ENTRY,
    windows.ENTRY,
    few_rows.ENTRY,
    rows_and_columns.ENTRY,
    columns.ENTRY,
    rows_split.ENTRY,
    rows_persistent.ENTRY,
    rows_looped.ENTRY,
)


def choose_schedule(
    candidate: Candidate, schedules: Iterable[ScheduleEntry] = SCHEDULES
) -> tuple[ScheduleEntry, Loops]:
    """The schedule of a space, and how it goes through it."""
    for entry in schedules:
        loops = entry.loops(candidate)
        if loops is not None:
            return entry, loops
    raise AssertionError("unreachable: of each family of spaces one schedule takes all")


def choose_tunables(entry: ScheduleEntry, target: TargetFacts, work: KernelWork) -> tuple[Tunable, ...]:
    """The block at the top of the file; empty for a target that the schedule was never tuned for."""
    tuning = entry.tunables.get(target.name)
    return tuning(work) if tuning is not None else ()
