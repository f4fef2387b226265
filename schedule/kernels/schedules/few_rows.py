"""FEW_ROWS (CUDA only): adds up a few rows that lie one above the other, such as those of the heads that share a key.
The rows are a loop that the compiler unrolls, as the places of a window are, and each thread has all of them: a tile of
rows, as tall columns are walked in, would be empty for the most part. Results vary over the cols.

Tunables: as of WINDOWS, in pieces of rows that may be as long as a program's results.
"""

from __future__ import annotations

from longhand.schedule.kernels.kernel_plan import Tunable
from longhand.schedule.kernels.kernel_schedule import KernelSchedule
from longhand.schedule.kernels.schedules.entry import Candidate, KernelWork, Loops, ScheduleEntry
from longhand.schedule.kernels.schedules.windows import elements_per_program
from longhand.schedule.kernels.space import Family
from longhand.schedule.targets import TRITON

FEW_ROWS = KernelSchedule(
    "few_rows",
    printed_as="windows",
    has_passes=True,
    is_down_columns=True,
    has_grid_of_blocks=True,
    unrolls_rows=True,
)


def _loops(candidate: Candidate) -> Loops | None:
    return Loops(candidate.passes) if candidate.space.family is Family.FEW_ROWS else None


def _cuda(work: KernelWork) -> tuple[Tunable, ...]:
    # As of windows, not measured by itself (bf16, H200: llama's step, where this adds up four heads, 12.8 and 11.2 ms).
    elements = elements_per_program(work)
    if not work.has_several_cols:
        return Tunable("BLOCK", elements, "results per program"), Tunable("NUM_WARPS", 4)
    return (
        Tunable("ELEMENTS", elements, "results per program: short rows share one"),
        Tunable("MAX_COLS", elements, "widest piece of a row of results"),
        Tunable("NUM_WARPS", 4),
    )


ENTRY = ScheduleEntry(FEW_ROWS, _loops, {TRITON.name: _cuda})
