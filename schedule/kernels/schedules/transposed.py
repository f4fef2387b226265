"""TRANSPOSED: no reduction; the last row axis and the only col axis make tiles of TILE x TILE (CPU: TILE_ROWS x
TILE_COLS), further row axes are a batch (one program id or outer loops).

Tunables. CUDA: TILE, NUM_WARPS. CPU: TILE_ROWS, TILE_COLS, GRAIN; what is `transposed` is read into arrays of that size
first.
"""

from __future__ import annotations

from longhand.schedule.kernels.kernel_plan import Tunable
from longhand.schedule.kernels.kernel_schedule import KernelSchedule
from longhand.schedule.kernels.schedules.entry import Candidate, KernelWork, Loops, ScheduleEntry, grain
from longhand.schedule.kernels.schedules.registers import in_registers
from longhand.schedule.kernels.space import Family
from longhand.schedule.targets import CPP, TRITON

TRANSPOSED = KernelSchedule("transposed", is_tiled=True)


def _loops(candidate: Candidate) -> Loops | None:
    return Loops() if candidate.space.family is Family.TRANSPOSED else None


def _cuda(work: KernelWork) -> tuple[Tunable, ...]:
    wide = in_registers(128 * 128, work.live_words, n_warps=8) == 128 * 128
    side = 128 if work.element_bytes <= 2 and wide else 64
    return Tunable("TILE", side, "rows and columns of a tile"), Tunable("NUM_WARPS", 8)


def _cpu(work: KernelWork) -> tuple[Tunable, ...]:
    if work.is_transposed:
        # Long rows: several lines of cache, one after the other, are what the processor fetches ahead.
        rows, cols = 64, 256 if work.element_bytes <= 4 else 128
    else:
        # Two cache lines of the strided side: wider tiles evict their own lines where sizes are powers of two.
        rows = cols = 128 // min(work.element_bytes, 8)
    return (
        Tunable("TILE_ROWS", rows, "rows of a tile"),
        Tunable("TILE_COLS", cols, "columns of a tile"),
        *grain(work),
    )


ENTRY = ScheduleEntry(TRANSPOSED, _loops, {TRITON.name: _cuda, CPP.name: _cpu})
