"""ROWS_AND_COLUMNS: reduces over all cols, and sums over all rows. The rows are cut into chunks, combined as in
COLUMNS.

CUDA: rows are held as in ROWS_PERSISTENT; the one pass is over the rows of a chunk, ``rows = max(1, ELEMENTS // cols)``
at a time, ``splits = min(SPLITS, cdiv(n_rows, rows))``: its `compute` holds the reductions over the cols too, its
`reductions` are the sums. ELEMENTS, WARP_ELEMENTS (the first kernel's, as there), SPLITS, SUM_COLS (cols that a program
of the second kernel adds up). CPU: passes over the cols as in ROWS_LOOPED, whose `sums` are those over the rows; what
stores these comes after all rows. ROWS, SPLITS, GRAIN.
"""

from __future__ import annotations

from longhand.schedule.fusion.column_reductions import pass_over_rows
from longhand.schedule.kernels.kernel_plan import Tunable
from longhand.schedule.kernels.kernel_schedule import KernelSchedule
from longhand.schedule.kernels.masks import Masking, find_masking
from longhand.schedule.kernels.pass_depths import find_pass_depths
from longhand.schedule.kernels.schedules.entry import Candidate, KernelWork, Loops, ScheduleEntry, grain
from longhand.schedule.targets import CPP, TRITON

ROWS_AND_COLUMNS = KernelSchedule("rows_and_columns", has_passes=True, is_compiled_for_cols=True)

# CUDA: rows that are kept whole while their columns are added up. Several programs share a multiprocessor; few warps
# with many elements each wait less for each other (the gradient of layer norm, bf16, H200, us, by 2 warps and by 4 with
# twice the elements and half the chunks: 128 x 384 4.1 and 6.1, 1500 x 384 6.9 and 9.8, 3136 x 96 7.3 and 8.5, 8192 x
# 768 21.5 and 20.5; the second kernel by 16 columns).
_STEP = 2048  # elements at a time
_CHUNKS = 512


def chunks_of_rows(n_rows: int, n_cols: int) -> int:
    """How many programs share the rows (CUDA); each leaves a part of every sum."""
    padded = 1 << max(0, n_cols - 1).bit_length()
    return min(_CHUNKS, -(-n_rows // max(1, _STEP // padded)))


def _loops(candidate: Candidate) -> Loops | None:
    """Rows with their reductions, and sums down the columns; whole rows in registers where there are programs."""
    space = candidate.space
    if not space.column_reductions:
        return None
    cols = frozenset(axis.name for axis in space.cols)
    if not candidate.target.holds_rows:
        depths = find_pass_depths(
            space.body, cols, online=False, column_reductions=frozenset(space.column_reductions)
        )
        return Loops(candidate.passes_of(depths), is_split=True)
    passes = pass_over_rows(space.body, frozenset(axis.name for axis in space.rows), space.column_reductions)
    masking = find_masking(find_pass_depths(space.body, cols, online=False))
    guards = tuple(
        sorted({*masking.guards, *space.column_reductions})
    )  # rows past the end of a chunk are kept out
    return Loops(passes, Masking(guards, masking.padding, masking.spared), is_split=True)


def _cuda(_: KernelWork) -> tuple[Tunable, ...]:
    return (
        Tunable("ELEMENTS", _STEP, "at a time: short rows share a step"),
        Tunable("WARP_ELEMENTS", 1024, "held by each warp"),
        Tunable("SPLITS", _CHUNKS, "chunks of the rows, at most"),
        Tunable("SUM_COLS", 16, "columns of a program that adds up the chunks"),
    )


def _cpu(work: KernelWork) -> tuple[Tunable, ...]:
    return (
        Tunable("ROWS", 32, "rows per chunk, at least"),
        Tunable("SPLITS", 256, "chunks of the rows, at most"),
        *grain(work),
    )


ENTRY = ScheduleEntry(ROWS_AND_COLUMNS, _loops, {TRITON.name: _cuda, CPP.name: _cpu})
