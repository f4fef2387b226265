"""When a backward pass drops what the record holds: where parts of it do the same, as soon as in any of them.

The plan drops memory where the peak asks for it: in the derivative of one block, say, and not in that of another, which
would be the same function otherwise. What nobody reads after a part may go inside of that, at the place where it goes
in the others. Nothing lives longer for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from longhand.schedule.functions.alike_parts import steps_of_part
from longhand.schedule.functions.alike_steps import AlikeSteps, alike_steps
from longhand.schedule.functions.call_records import SharedCall
from longhand.schedule.functions.derivative_memory import MemoryOfSteps
from longhand.schedule.functions.derivatives import find_derivatives
from longhand.schedule.functions.long_functions import LongFunction, ModuleDerivative
from longhand.schedule.functions.part_steps import named_by
from longhand.schedule.layers.model_steps import ModelStep
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.plan import Release, Reuse, UnitPlan


def with_fields_dropped_alike(
    functions: Sequence[LongFunction],
    words: BufferNamer,
    calls: Mapping[int, SharedCall],
    plan: UnitPlan,
) -> list[LongFunction]:
    """The functions, with what they drop of the record dropped alike in parts that do the same.

    Args:
        functions: All of a backward pass.
        words: The captured graph's.
        calls: What is a call already, by the first of its steps.
        plan: The unit's.
    """
    found, hints = list(functions), plan.program.graph.examples
    for number, function in enumerate(functions):
        if function.drops_fields and _drops_any(function):
            memory = [MemoryOfSteps(one.steps, plan.buffers, hints) for one in functions]
            parts = find_derivatives(functions, words, calls, memory)[number]
            found[number] = DroppedFields(function, words, calls).with_parts(parts)
    return found


def _drops_any(function: LongFunction) -> bool:
    dropped = (name for step in function.steps if isinstance(step, Release) for name in step.buffers)
    return any(name in function.saved for name in dropped)


class DroppedFields:
    """Drops alike in one function."""

    def __init__(self, function: LongFunction, words: BufferNamer, calls: Mapping[int, SharedCall]) -> None:
        self._function = function
        self._words = words
        self._steps: list[ModelStep] = [*function.steps]
        spans = [
            (place, place + call.n_steps)
            for place, step in enumerate(function.steps)
            if (call := calls.get(id(step))) is not None
        ]
        # Steps that are a call already, but for the last one: what is dropped behind them is dropped there.
        self._inside = {id(step) for begin, end in spans for step in function.steps[begin : end - 1]}
        in_calls = (step for begin, end in spans for step in function.steps[begin:end])
        self._fixed = {name for step in in_calls if isinstance(step, Release) for name in step.buffers}
        self._fixed |= {step.of for step in function.steps if isinstance(step, Reuse)}
        self._last_read = {name: id(step) for step in function.steps for name in named_by(step)}

    def with_parts(self, parts: Sequence[ModuleDerivative]) -> LongFunction:
        """The function, whose parts these are."""
        groups: dict[tuple[object, ...], list[ModuleDerivative]] = {}
        for part in (inside for one in parts for inside in one.all_parts):
            groups.setdefault(part.does, []).append(part)
        plain = {part: self._plain(part) for group in groups.values() for part in group}
        for group in sorted(
            groups.values(), key=lambda of: of[0].start - of[0].stop
        ):  # those around others first
            left = group
            while len(left) > 1:
                first, *others = left
                alike = [one for one in others if self._alike([first, one]) is not None]
                left = [one for one in others if one not in alike]
                if alike:
                    self._unite([first, *alike], [plain[one] for one in (first, *alike)])
        return dataclasses.replace(self._function, steps=self._steps)

    def _alike(self, parts: Sequence[ModuleDerivative]) -> AlikeSteps | None:
        sites = [steps_of_part(part, self._function) for part in parts]
        return alike_steps(sites, self._words, self._function.variables)

    def _plain(self, part: ModuleDerivative) -> list[ModelStep]:
        """What a part does, without what is dropped."""
        steps = self._function.steps[part.start : part.stop]
        return [step for step in steps if not isinstance(step, Release)]

    def _unite(self, parts: Sequence[ModuleDerivative], each: Sequence[Sequence[ModelStep]]) -> None:
        """Drops fields in some parts that do the same where each first is in one of them.

        Args:
            parts: They.
            each: What each does, without what is dropped.
        """
        alike = self._alike(parts)
        if alike is None:
            return
        columns = [
            tuple(site.aliases.get(name, name) for site, name in zip(alike.sites, column, strict=True))
            for column in alike.inputs
        ]
        orders = [
            {column[place]: n for n, column in enumerate((*columns, *alike.made))}
            for place in range(len(parts))
        ]
        for column in columns:
            by_word: dict[str, list[int]] = {}
            for place, name in enumerate(column) if self._function.saved.issuperset(column) else ():
                by_word.setdefault(self._word(name), []).append(place)
            for places in by_word.values():
                dropped = [self._dropped_behind(column[place], each[place]) for place in places]
                first = min((number for number in dropped if number is not None), default=-1)
                for place in places:
                    if first >= 0 and self._may_go(column[place], each[place][: first + 1]):
                        self._drop(column[place], each[place][first], orders[place])

    def _word(self, name: str) -> str:
        """What its record calls a field: what others call otherwise a function for both is given by itself."""
        return self._function.variables.get(name, "").rpartition(".")[2]

    def _dropped_behind(self, name: str, steps: Sequence[ModelStep]) -> int | None:
        """The number of the step of a part behind which a field is dropped; None where it is not dropped there."""
        numbers = {id(step): number for number, step in enumerate(steps)}
        behind: int | None = None
        for step in self._steps:
            if not isinstance(step, Release):
                behind = numbers.get(id(step))
            elif name in step.buffers and name not in self._fixed:
                return behind
        return None

    def _may_go(self, name: str, steps: Sequence[ModelStep]) -> bool:
        """Whether nobody needs a field behind the last of some steps."""
        is_held = name in self._fixed or name in self._function.kept or id(steps[-1]) in self._inside
        return not is_held and self._last_read.get(name) in {id(step) for step in steps}

    def _drop(self, name: str, behind: ModelStep, order: Mapping[str, int]) -> None:
        """Drops a field behind a step and nowhere else, in one go with what else is: in that order."""
        steps: list[ModelStep] = []
        for step in self._steps:
            if isinstance(step, Release) and name in step.buffers:
                own = tuple(other for other in step.buffers if other != name)
                steps += [Release(own)] if own else []
            else:
                steps.append(step)
        start = stop = next(place for place, step in enumerate(steps) if step is behind) + 1
        names = [name]
        while stop < len(steps) and isinstance(release := steps[stop], Release):
            names += release.buffers
            stop += 1
        names.sort(key=lambda one: order.get(one, len(order)))
        self._steps = [*steps[:start], Release(tuple(names)), *steps[stop:]]
