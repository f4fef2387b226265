"""ELEMENTWISE: no reduction; one col axis (none only where the nest is a single element), any number of row axes.

Tunables. Without rows, CUDA: BLOCK, NUM_WARPS; a program takes BLOCK cols. With rows, CUDA: ELEMENTS, COLS, NUM_WARPS;
``cols = min(COLS, next_power_of_2(n_cols))``, ``rows = max(1, ELEMENTS // cols)``. CPU: GRAIN.
"""

from __future__ import annotations

from longhand.schedule.kernels.kernel_plan import Tunable
from longhand.schedule.kernels.kernel_schedule import KernelSchedule
from longhand.schedule.kernels.schedules.entry import Candidate, KernelWork, Loops, ScheduleEntry, grain
from longhand.schedule.kernels.schedules.registers import in_registers
from longhand.schedule.kernels.space import Family
from longhand.schedule.targets import CPP, TRITON

ELEMENTWISE = KernelSchedule("elementwise", has_grid_of_blocks=True, has_independent_elements=True)


def _loops(candidate: Candidate) -> Loops | None:
    return Loops() if candidate.space.family is Family.ELEMENTWISE else None


def _cuda(work: KernelWork) -> tuple[Tunable, ...]:
    if not (work.has_rows or work.has_cols):
        return (Tunable("NUM_WARPS", 1),)
    if not work.has_rows:
        # 16 bytes a thread and load.
        lanes = 16 // max(1, min(work.element_bytes, 8))
        return Tunable("BLOCK", 128 * lanes, "elements per program"), Tunable("NUM_WARPS", 4)
    elements = in_registers(4096, work.live_words, n_warps=4)
    return (
        Tunable("ELEMENTS", elements, "per program: short rows share one"),
        Tunable("COLS", min(512, elements), "widest piece of a row"),
        Tunable("NUM_WARPS", 4),
    )


ENTRY = ScheduleEntry(ELEMENTWISE, _loops, {TRITON.name: _cuda, CPP.name: grain})
