"""From a loop program to the complete plan: the passes of `schedule.passes`, one after the other."""

from __future__ import annotations

from collections.abc import Callable

from longhand.lower.ir import Program
from longhand.options import Options
from longhand.schedule.draft import Draft
from longhand.schedule.passes import PASSES
from longhand.schedule.plan import UnitPlan
from longhand.schedule.verification.verifier import Verifier


def schedule(
    program: Program, options: Options, show: Callable[[str, Draft], None] = lambda name, draft: None
) -> UnitPlan:
    """The complete plan of a program.

    Args:
        program: What lower made.
        options: What is generated; the device decides how kernels walk their space.
        show: Is given each pass's name and what it made.

    Raises:
        ScheduleError: A step could not be planned: a bug of ours.
        BrokenPlanError: With LONGHAND_VERIFY=1: lower or a pass made a plan that breaks a rule.
        LayersDiffer: The layers that the program leaves out cannot be told from those it holds.
    """
    verifier = Verifier.from_environment()
    draft = Draft.of(program, options)
    verifier.check("lower", draft)
    for plan_pass in PASSES:
        draft = plan_pass.apply(draft)
        show(plan_pass.name, draft)
        verifier.check(plan_pass.name, draft)
    return draft.as_plan()
