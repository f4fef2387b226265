"""ROWS_PERSISTENT (CUDA only): reduces over all cols, whole rows in registers. No passes: the body in order.

Tunables: ``cols = next_power_of_2(n_cols)``, ``rows = max(1, ELEMENTS // cols)`` rows a program, and
``ceil_div(rows * cols, WARP_ELEMENTS)`` warps; NUM_WARPS if there are no rows, or rows of any length.
"""

from __future__ import annotations

import dataclasses

from longhand.lower.ir import Load, Pointwise, arguments
from longhand.schedule.kernels.kernel_plan import Tunable
from longhand.schedule.kernels.kernel_schedule import KernelSchedule
from longhand.schedule.kernels.masks import find_masking
from longhand.schedule.kernels.pass_depths import PassDepths
from longhand.schedule.kernels.schedules.entry import Candidate, KernelWork, Loops, ScheduleEntry
from longhand.schedule.kernels.space import Family
from longhand.schedule.targets import TRITON

ROWS_PERSISTENT = KernelSchedule("rows_persistent", is_row_wise=True, is_compiled_for_cols=True)

# Up to this many elements of a row stay in the registers of 8 warps.
_PERSISTENT = 16384
_PERSISTENT_CROWDED = 8192  # where more than this many values of the row are alive at once:
_CROWD = 6
# ... and of 16 warps, where few are, and the row is written: two loops would read it twice.
_PERSISTENT_LONG = 32768
_FEW = 3


def is_long_row(n_cols: int) -> bool:
    """Whether a row needs the registers of more warps than usual."""
    return n_cols > _PERSISTENT


def _fits_registers(n_cols: int, live: int, writes_rows: bool) -> bool:
    """Whether a program holds whole rows; `live` values of the row are alive at once."""
    if live > _CROWD:
        return n_cols <= _PERSISTENT_CROWDED
    return n_cols <= (_PERSISTENT_LONG if live <= _FEW and writes_rows else _PERSISTENT)


def _loops(candidate: Candidate) -> Loops | None:
    if candidate.space.family is not Family.ROWS or not candidate.target.holds_rows:
        return None
    depths, passes = candidate.depths, candidate.passes
    if not _fits_registers(candidate.n_cols, _live_row_values(depths), passes.writes_elements):
        return None
    return Loops(passes, find_masking(dataclasses.replace(depths, online=())))


def _live_row_values(depths: PassDepths) -> int:
    """How many values of a whole row are alive at once at most."""
    last = {argument: position for position, value in enumerate(depths.body) for argument in arguments(value)}
    most = 0
    alive: set[int] = set()
    for position, value in enumerate(depths.body):
        if depths.is_element[position] and isinstance(value, Load | Pointwise):
            alive.add(position)
        most = max(most, len(alive))
        alive = {other for other in alive if last.get(other, -1) > position}
    return most


def _cuda(work: KernelWork) -> tuple[Tunable, ...]:
    if not work.has_rows:
        return (Tunable("NUM_WARPS", 16 if work.is_long else 8),)
    # A warp that holds its rows waits for no other (bf16, H200, us, one warp a row or each 1024 elements, and 8 warps a
    # program as it was: add and layer norm 3136 x 96 2.1 and 5.0, 784 x 192 1.8 and 2.4, 49 x 768 1.9 and 1.8, 2048 x
    # 768 3.5 and 4.5, 32768 x 768 51 and 60, 4096 x 4096 37 and 36; its gradient 32768 x 768 79 and 163).
    # Across memory a row is a few bytes of each line: 8 rows at a time (layer norm of 1500 x 384 2.9 and 6.3, of 24000
    # x 384 21 and 26; a row at a time 5.2 and 64).
    elements = Tunable("ELEMENTS", 4096 if work.is_across else 512, "per program: short rows share one")
    if work.has_varied_cols:  # rows of any length would ask for more warps than there may be
        return elements, Tunable("NUM_WARPS", 8)
    return elements, Tunable("WARP_ELEMENTS", 1024, "held by each warp")


ENTRY = ScheduleEntry(ROWS_PERSISTENT, _loops, {TRITON.name: _cuda})
