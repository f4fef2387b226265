"""All rules of a program of loops: on its steps in their order, and on each of them by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from longhand.lower.ir import Buffer, Contraction, Extern, Load, Nest, Step, Store
from longhand.lower.rules.breaches import RuleBreach, Surroundings
from longhand.lower.rules.contractions import contraction_faults
from longhand.lower.rules.nests import nest_faults, view_faults
from longhand.lower.rules.order import order_faults


def step_faults(step: Step, around: Surroundings) -> Iterator[RuleBreach]:
    """Breaches by a step by itself. All that it names must be there."""
    match step:
        case Nest():
            yield from nest_faults(step, around)
        case Contraction():
            yield from contraction_faults(step, around)
        case Extern():
            yield from view_faults(step, around)


class StepChecks:
    """Checks programs in the making. A step that a pass left as it is, in the same buffers, is not checked again."""

    def __init__(self) -> None:
        # By identity of the step and of what it names; the values keep these alive, so that no id comes twice.
        self._checked: dict[tuple[int, ...], tuple[object, ...]] = {}

    def faults(self, steps: Sequence[Step], around: Surroundings) -> Iterator[RuleBreach]:
        """The breaches of a program."""
        yield from order_faults(steps, around)
        for step in steps:
            used = (step, *_buffers(step, around))
            key = tuple(map(id, used))
            if key in self._checked:
                continue
            breaches = list(step_faults(step, around))
            yield from breaches
            if not breaches:
                self._checked[key] = used


def _buffers(step: Step, around: Surroundings) -> Iterator[Buffer | None]:
    """What a step reads and makes."""
    for part in step.steps if isinstance(step, Contraction) else (step,):
        if isinstance(part, Extern):
            names = [view.buffer for view in part.views()]
        else:
            names = [value.buffer for value in part.body if isinstance(value, Load | Store)]
        yield from map(around.buffers.get, dict.fromkeys(names))
