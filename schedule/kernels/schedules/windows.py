"""WINDOWS (CUDA only): reduces over the few places of a window, the rows, each of whose axes is a loop that the
compiler unrolls: its loads are on their way at the same time. Results vary over the cols, the last of which makes the
lanes; further ones make the other side of a block of results.

Tunables: ELEMENTS, COLS, NUM_WARPS: ``cols = min(COLS, next_power_of_2(size of the last col axis))``,
``rows = max(1, ELEMENTS // cols)``; BLOCK, NUM_WARPS where there is one col axis.
"""

from __future__ import annotations

from longhand.schedule.kernels.kernel_plan import Tunable
from longhand.schedule.kernels.kernel_schedule import KernelSchedule
from longhand.schedule.kernels.schedules.entry import Candidate, KernelWork, Loops, ScheduleEntry
from longhand.schedule.kernels.space import Family
from longhand.schedule.targets import TRITON

WINDOWS = KernelSchedule(
    "windows", has_passes=True, has_grid_of_blocks=True, unrolls_rows=True, walks_windows=True
)


def _loops(candidate: Candidate) -> Loops | None:
    return Loops(candidate.passes) if candidate.space.family is Family.WINDOWS else None


def elements_per_program(work: KernelWork) -> int:
    """As many results as make 16 bytes a thread and load."""
    # bf16, H200, us; batch norm, relu and a maximum over 3 x 3 of 64 x 112 x 112, 1 image and 64: 4 elements a thread
    # 2.5 and 68, 8 of them 2.8 and 54, 16 of them 2.8 and 54; the library's maximum alone 18 and 214. Means over 2 x 2,
    # 32 images of 256 x 28 x 28: 5.1, 3.6, 3.7; the library's 29.
    return 128 * (16 // max(2, min(work.element_bytes, 8)))


def _cuda(work: KernelWork) -> tuple[Tunable, ...]:
    elements = elements_per_program(work)
    if not work.has_several_cols:
        return Tunable("BLOCK", elements, "results per program"), Tunable("NUM_WARPS", 4)
    return (
        Tunable("ELEMENTS", elements, "results per program"),
        Tunable("MAX_COLS", 64, "widest piece of a row of results"),
        Tunable("NUM_WARPS", 4),
    )


ENTRY = ScheduleEntry(WINDOWS, _loops, {TRITON.name: _cuda})
