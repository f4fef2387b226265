"""ONE_PROGRAM: a small tensor, element by element, in one program. A toy: docs/adding_a_kernel_schedule.md."""

from __future__ import annotations

from longhand.schedule.kernels.kernel_plan import Tunable
from longhand.schedule.kernels.kernel_schedule import KernelSchedule
from longhand.schedule.kernels.schedules.entry import Candidate, KernelWork, Loops, ScheduleEntry
from longhand.schedule.kernels.space import Family
from longhand.schedule.targets import CPP, TRITON

ONE_PROGRAM = KernelSchedule("one_program")

_SMALL = 256  # elements


def _loops(candidate: Candidate) -> Loops | None:
    space = candidate.space
    is_flat = space.family is Family.ELEMENTWISE and not space.rows and bool(space.cols)
    is_known = all(isinstance(axis.size, int) for axis in space.cols)
    return Loops() if is_flat and is_known and candidate.n_cols <= _SMALL else None


def _cuda(work: KernelWork) -> tuple[Tunable, ...]:
    return (Tunable("NUM_WARPS", 2 if work.is_heavy else 1),)


def _cpu(_: KernelWork) -> tuple[Tunable, ...]:
    return ()


ENTRY = ScheduleEntry(ONE_PROGRAM, _loops, {TRITON.name: _cuda, CPP.name: _cpu})
