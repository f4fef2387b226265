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


# Few elements wait for a program's own chain of steps, which ends sooner with fewer of them a thread; many wait for the
# memory, which more of them a thread keep busier (bf16, H200, us, in blocks of 1024 by 8 warps, 128 columns wide, of
# 2048 by 4, 256 wide, and of 4096 by 4, 512 wide: a GRU's step of 16 x 512 1.9, 3.1, 5.2; batch norm and relu of 49 x
# 512 1.6, 1.7, 1.9, of 784 x 512 1.8, 1.9, 2.1, of 12544 x 64 2.1, 2.2, 2.1, of 401408 x 256 by 8 warps 134, 110, 112,
# of 4096 x 4096 by 8 warps 27, 20, 20; the same and a sum, 196 x 576, 1.6, 2.1, 2.3; 2401 rows of 24 gathered 1.7, 2.5,
# 2.3).
_SMALL = 1_250_000


def is_small(n_elements: int) -> bool:
    """Whether a kernel over so many elements is done before the memory is busy."""
    return n_elements <= _SMALL


def _cuda(work: KernelWork) -> tuple[Tunable, ...]:
    if not (work.has_rows or work.has_cols):
        return (Tunable("NUM_WARPS", 1),)
    if not work.has_rows:
        # 16 bytes a thread and load.
        lanes = 16 // max(1, min(work.element_bytes, 8))
        return Tunable("BLOCK", 128 * lanes, "elements per program"), Tunable("NUM_WARPS", 4)
    most, cols, warps = (1024, 128, 8) if work.is_small else (2048, 256, 4)
    elements = in_registers(most, work.live_words, warps)
    return (
        Tunable("ELEMENTS", elements, "per program: short rows share one", by_size=True),
        Tunable("MAX_COLS", min(cols, elements), "widest piece of a row", by_size=True),
        Tunable("NUM_WARPS", warps, by_size=True),
    )


ENTRY = ScheduleEntry(ELEMENTWISE, _loops, {TRITON.name: _cuda, CPP.name: grain})
