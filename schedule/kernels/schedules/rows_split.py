"""ROWS_SPLIT: few, very long rows, reduced in one pass, whose cols are cut into ``splits = min(SPLITS, cdiv(n_cols,
COLS))`` chunks that run at the same time. Each leaves `partials`; a second kernel (CPU: a second loop) combines them,
in order, and does the pass's `then`.

Tunables. CUDA: COLS, SPLITS, NUM_WARPS (of the first kernel). CPU: COLS, SPLITS, GRAIN.
"""

from __future__ import annotations

from longhand.schedule.kernels.kernel_plan import Tunable
from longhand.schedule.kernels.kernel_schedule import AxisRole, KernelSchedule
from longhand.schedule.kernels.schedules.entry import Candidate, KernelWork, Loops, ScheduleEntry, grain
from longhand.schedule.kernels.space import Family
from longhand.schedule.targets import CPP, TRITON

ROWS_SPLIT = KernelSchedule(
    "rows_split",
    has_passes=True,
    is_row_wise=True,
    chunked=AxisRole.COL,
)


# Rows that pay to be split: how many at most, how long at least. Where nothing was measured none do.
_FEW_AND_LONG = {TRITON.name: (263, 16385), CPP.name: (15, 65536)}


def _loops(candidate: Candidate) -> Loops | None:
    if candidate.space.family is not Family.ROWS:
        return None
    passes = candidate.passes
    if not passes.is_splittable or passes.writes_elements:
        return None
    if not _should_split(candidate.target.name, candidate.n_rows, candidate.n_cols):
        return None
    return Loops(passes, candidate.masking, is_split=True)


def _should_split(target: str, n_rows: int, n_cols: int) -> bool:
    """Whether rows are so few and long that chunks of them should run at the same time."""
    most_rows, least_cols = _FEW_AND_LONG.get(target, (0, 0))
    return n_rows <= most_rows and n_cols >= least_cols


def _cuda(_: KernelWork) -> tuple[Tunable, ...]:
    return (
        Tunable("COLS", 8192, "columns at a time"),
        Tunable("SPLITS", 512, "chunks of a row, at most"),
        Tunable("NUM_WARPS", 8),
    )


def _cpu(work: KernelWork) -> tuple[Tunable, ...]:
    return (
        Tunable("COLS", 8192, "columns per chunk, at least"),
        Tunable("SPLITS", 128, "chunks of a row, at most"),
        *grain(work),
    )


ENTRY = ScheduleEntry(ROWS_SPLIT, _loops, {TRITON.name: _cuda, CPP.name: _cpu})
