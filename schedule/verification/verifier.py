"""LONGHAND_VERIFY=1: the rules that a plan keeps after every pass; the tests always check them.

As long as steps are loops the rules are those of `lower.rules`. `launch_rules` holds what is checked of a launch,
`memory_rules` what is checked of steps in their order.
"""

from __future__ import annotations

from collections.abc import Iterator

from longhand.errors import BrokenPlanError
from longhand.lower.ir import Contraction, Extern, Nest, Step, in_parts
from longhand.lower.rules.breaches import RuleBreach, Surroundings, is_verifying
from longhand.lower.rules.steps import step_faults
from longhand.schedule.dependencies import effects
from longhand.schedule.draft import Draft
from longhand.schedule.plan import Launch, PlanStep, flat_steps
from longhand.schedule.verification.launch_rules import launch_faults
from longhand.schedule.verification.memory_rules import memory_faults


class Verifier:
    """Checks the drafts of one plan. A step that a pass left as it is, is not checked again by itself."""

    def __init__(self, is_on: bool) -> None:
        self._is_on = is_on
        # By identity of the step, its kernel and its buffers; the values keep these alive, so that no id comes twice.
        self._checked: dict[tuple[int, ...], tuple[object, ...]] = {}

    @classmethod
    def from_environment(cls) -> Verifier:
        """As LONGHAND_VERIFY says now."""
        return cls(is_verifying())

    def check(self, pass_name: str, draft: Draft) -> None:
        """Checks what a pass made.

        Raises:
            BrokenPlanError: It breaks a rule.
        """
        if not self._is_on:
            return
        for fault in self._faults(draft):
            raise BrokenPlanError(pass_name, fault.step, fault.rule.value, fault.what)

    def _faults(self, draft: Draft) -> Iterator[RuleBreach]:
        steps: tuple[Step | PlanStep, ...] = (
            tuple(flat_steps(draft.unit_steps)) if draft.has_kernels else draft.loops
        )
        around = _surroundings(draft)
        yield from memory_faults(steps, draft, around)
        for step in steps:
            kernel = draft.kernels[step.kernel] if isinstance(step, Launch) else None
            key = (id(step), id(kernel), id(draft.buffers))
            if key in self._checked:
                continue
            match step:
                case Nest() | Contraction() | Extern():
                    yield from step_faults(step, around)
                case Launch():
                    yield from launch_faults(step, draft)
            self._checked[key] = (step, kernel, draft.buffers)


def _surroundings(draft: Draft) -> Surroundings:
    program = draft.program
    written = {name for step in in_parts(program.steps) for name in effects(step).writes}
    mutated = {*program.graph.overwritten, *written}  # layers that the program leaves out write their own
    return Surroundings(draft.buffers, draft.hints.keys(), draft.kept, mutated)
