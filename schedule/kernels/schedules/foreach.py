"""FOREACH: an elementwise body over many groups of tensors (the parameter, gradient and state of each weight) in one
launch. At most one col axis, whose size differs from group to group; none where each tensor is a single element.

No nest asks for it: schedule/fusion/horizontal.py makes it of many elementwise launches.

Tunables. CUDA: BLOCK elements of one group a program (without the axis a group), NUM_WARPS. CPU: threads share out
chunks of CHUNK elements (without the axis there is one thread).
"""

from __future__ import annotations

from longhand.schedule.kernels.kernel_plan import Tunable
from longhand.schedule.kernels.kernel_schedule import KernelSchedule
from longhand.schedule.kernels.schedules.entry import Candidate, KernelWork, ScheduleEntry
from longhand.schedule.targets import CPP, TRITON

FOREACH = KernelSchedule("foreach", is_over_lists=True)


def _never(_: Candidate) -> None:
    return None


def _cuda(work: KernelWork) -> tuple[Tunable, ...]:
    if not work.has_cols:
        return (Tunable("NUM_WARPS", 1),)
    lanes = 16 // max(1, min(work.element_bytes, 8))
    return Tunable("BLOCK", 256 * lanes, "elements per program"), Tunable("NUM_WARPS", 8)


def _cpu(work: KernelWork) -> tuple[Tunable, ...]:
    if not work.has_cols:
        return ()
    return (Tunable("CHUNK", 16384, "elements that a thread takes at a time"),)


ENTRY = ScheduleEntry(FOREACH, _never, {TRITON.name: _cuda, CPP.name: _cpu})
