"""What a template for contractions says: a kernel schedule, and which contractions it computes in one kernel.

A contraction's kernel has what it keeps as rows and what it sums over as cols, whatever is contiguous. Its plan is that
of any kernel (`schedule.kernels.kernel_plan`): prologue, product, sum and epilogue are values of one body. Its printers
are found by the schedule's name, as any schedule's are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from longhand.lower.ir import Contraction
from longhand.schedule.kernels.schedules.entry import Candidate, Loops, ScheduleEntry
from longhand.schedule.targets import TargetFacts


@dataclasses.dataclass(frozen=True)
class ContractionTemplate:
    """One template.

    Attributes:
        entry: Facts, loops and tunables.
        accepts: Whether a kernel of it computes all of a contraction for a target, the nests moved in included. It
            is asked before a nest is moved in, with the nest in its place, and once more before the kernel is planned.
    """

    entry: ScheduleEntry
    accepts: Callable[[Contraction, TargetFacts], bool]


def looped_over_products(candidate: Candidate) -> Loops:
    """Loops for `entry`: one pass over what is summed, then what comes after the sum."""
    return Loops(candidate.passes, candidate.masking)
