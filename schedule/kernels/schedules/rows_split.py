"""ROWS_SPLIT: few, very long rows, reduced in one pass, whose cols are cut into ``splits = min(SPLITS, cdiv(n_cols,
COLS))`` chunks that run at the same time. Each leaves `partials`; a second kernel (CPU: a second loop) combines them,
in order, and does the pass's `then`.

Tunables. CUDA: COLS, SPLITS, NUM_WARPS (of the first kernel). CPU: COLS, SPLITS, GRAIN.
"""

from __future__ import annotations

from longhand.options import Device
from longhand.schedule.kernels.kernel_plan import Tunable
from longhand.schedule.kernels.kernel_schedule import AxisRole, KernelSchedule
from longhand.schedule.kernels.schedules.entry import Candidate, Loops, ScheduleEntry, Work, grain
from longhand.schedule.kernels.space import Family

ROWS_SPLIT = KernelSchedule(
    "rows_split",
    word="split",
    is_named_first=True,
    has_passes=True,
    is_row_wise=True,
    chunked=AxisRole.COL,
)


def _loops(candidate: Candidate) -> Loops | None:
    if candidate.space.family is not Family.ROWS:
        return None
    passes = candidate.passes
    if not passes.is_splittable or passes.writes_elements:
        return None
    if not _should_split(candidate.device, candidate.n_rows, candidate.n_cols):
        return None
    return Loops(passes, candidate.masking, is_split=True)


def _should_split(device: Device, n_rows: int, n_cols: int) -> bool:
    """Whether rows are so few and long that chunks of them should run at the same time."""
    if device is Device.CUDA:
        return n_rows < 264 and n_cols > 16384
    return n_rows < 16 and n_cols >= 65536


def _cuda(_: Work) -> tuple[Tunable, ...]:
    return (
        Tunable("COLS", 8192, "columns at a time"),
        Tunable("SPLITS", 512, "chunks of a row, at most"),
        Tunable("NUM_WARPS", 8),
    )


def _cpu(work: Work) -> tuple[Tunable, ...]:
    return (
        Tunable("COLS", 8192, "columns per chunk, at least"),
        Tunable("SPLITS", 128, "chunks of a row, at most"),
        *grain(work),
    )


ENTRY = ScheduleEntry(ROWS_SPLIT, _loops, {Device.CUDA: _cuda, Device.CPU: _cpu})
