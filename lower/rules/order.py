"""Rules on steps in their order: written before read, and the caller's memory left alone but where the call says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

import torch

from longhand.lower.ir import BufferKind, Contraction, Extern, Load, Nest, Step, Store
from longhand.lower.rules.breaches import PlanRule, RuleBreach, Surroundings, step_words
from longhand.lower.rules.nests import Breach

_FILLS = frozenset({torch.ops.aten.zero_.default, torch.ops.aten.fill_.Scalar})  # whatever is there


def order_faults(steps: Iterable[Step], around: Surroundings) -> Iterator[RuleBreach]:
    """Breaches by the steps of a program, one after the other."""
    memory = StepMemory(around)
    for step in steps:
        for rule, what in memory.loops(step):
            yield RuleBreach(rule, step_words(step), what)
    yield from memory.lost()


class StepMemory:
    """What is in memory after some of the steps."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.written: set[str] = set()

    def is_readable(self, name: str) -> bool:
        """Whether a buffer holds something."""
        buffer = self.around.buffers.get(name)
        return buffer is not None and (buffer.kind is not BufferKind.INTERMEDIATE or name in self.written)

    def is_gone(self, name: str) -> bool:
        """Whether a buffer held something once. Loops release nothing."""
        return False

    def lost(self) -> Iterator[RuleBreach]:
        """Results that are not there when the call ends."""
        for name in sorted(self.around.kept):
            if not self.is_readable(name):
                yield RuleBreach(
                    PlanRule.WRITTEN_FIRST, "the end of the call", f"the result {name} is not there"
                )

    def loops(self, step: Step) -> Iterator[Breach]:
        """Does a step, and tells what is wrong about it."""
        match step:
            case Nest():
                for value in step.body:
                    if isinstance(value, Load) or (isinstance(value, Store) and value.adds):
                        yield from self.reads([value.buffer])
                    if isinstance(value, Store):
                        yield from self.writes([value.buffer])
                        self.written.add(value.buffer)
            case Contraction():
                for part in step.steps:
                    yield from self.loops(part)
            case Extern():
                yield from self.call(step)

    def call(self, step: Extern, spared: Set[str] = frozenset()) -> Iterator[Breach]:
        """Does a call. What is spared needs to hold nothing before."""
        filled = set(step.mutates) if step.target in _FILLS else set()
        named_in = [*(view.buffer for view in step.views()), *step.measured, *step.mutates]
        yield from self.reads(name for name in named_in if name not in spared | filled)
        yield from self.writes(step.mutates)
        yield from self.exist(filter(None, step.outputs))
        self.written.update(filter(None, step.outputs))
        self.written.update(filled)

    def exist(self, names: Iterable[str]) -> Iterator[Breach]:
        """That there are such buffers."""
        for name in names:
            if name not in self.around.buffers:
                yield PlanRule.NAMES, f"there is no buffer {name}"

    def reads(self, names: Iterable[str]) -> Iterator[Breach]:
        """That buffers hold something."""
        for name in names:
            if name not in self.around.buffers:
                yield PlanRule.NAMES, f"there is no buffer {name}"
            elif self.is_gone(name):
                yield PlanRule.WRITTEN_FIRST, f"{name} is gone: it was released, or its memory taken over"
            elif not self.is_readable(name):
                yield PlanRule.WRITTEN_FIRST, f"nothing has written {name}"

    def writes(self, names: Iterable[str]) -> Iterator[Breach]:
        """That buffers may be written."""
        for name in names:
            buffer = self.around.buffers.get(name)
            if buffer is None:
                yield PlanRule.NAMES, f"there is no buffer {name}"
            elif buffer.kind is not BufferKind.INTERMEDIATE and name not in self.around.mutated:
                yield PlanRule.ALIASES, f"{name} is the caller's, and nothing says that the call writes it"
