"""ROWS_LOOPED: reduces over all cols, in `passes`.

Tunables. CUDA: COLS, NUM_WARPS, NUM_STAGES, one row a program. CPU: GRAIN, rows are divided among threads.
"""

from __future__ import annotations

from longhand.schedule.kernels.kernel_plan import Tunable
from longhand.schedule.kernels.kernel_schedule import KernelSchedule
from longhand.schedule.kernels.schedules.entry import Candidate, KernelWork, Loops, ScheduleEntry, grain
from longhand.schedule.kernels.space import Family
from longhand.schedule.targets import CPP, TRITON

ROWS_LOOPED = KernelSchedule(
    "rows_looped",
    has_passes=True,
    is_row_wise=True,
    is_row_by_row=True,
    is_compiled_for_cols=True,
)


def _loops(candidate: Candidate) -> Loops | None:
    return Loops(candidate.passes, candidate.masking) if candidate.space.family is Family.ROWS else None


def _cuda(work: KernelWork) -> tuple[Tunable, ...]:
    return (
        Tunable("COLS", 4096 if work.writes_rows else 1024, "columns at a time"),
        Tunable("NUM_WARPS", 16),
        Tunable("NUM_STAGES", 2),
    )


ENTRY = ScheduleEntry(ROWS_LOOPED, _loops, {TRITON.name: _cuda, CPP.name: grain})
