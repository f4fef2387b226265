"""Rules on steps in their order: written before read, memory there before it is written, shared only with leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from longhand.lower.ir import BufferKind, Contraction, Extern, Load, Nest, Step, Store
from longhand.schedule.dependencies import effects, handed_on
from longhand.schedule.draft import Draft
from longhand.schedule.plan import Access, Allocate, Group, KernelPlan, Launch, PlanStep, Release, Reuse
from longhand.schedule.sizes import product, same
from longhand.schedule.verification.rules import PlanRule, RuleBreach, named

_FILLS = frozenset({torch.ops.aten.zero_.default, torch.ops.aten.fill_.Scalar})  # whatever is there


def memory_faults(steps: Sequence[Step | PlanStep], draft: Draft) -> Iterator[RuleBreach]:
    """Breaches by the steps of a draft, repeats laid out one run after the other."""
    memory = _Memory(draft, is_placed=any(isinstance(step, Allocate | Reuse) for step in steps))
    for step in steps:
        for rule, what in memory.run(step):
            yield RuleBreach(rule, named(step), what)
    for name in sorted(draft.kept):
        if not memory.is_readable(name):
            yield RuleBreach(PlanRule.WRITTEN_FIRST, "the end of the call", f"the result {name} is not there")


class _Memory:
    """What is where after some of the steps."""

    def __init__(self, draft: Draft, is_placed: bool) -> None:
        self._draft = draft
        self._is_placed = is_placed
        self._written: set[str] = set()
        self._released: set[str] = set()
        self._overwritten: set[str] = set()  # by what took the memory over
        self._block: dict[str, str] = {}  # the first name of a buffer's memory
        self._leaving: set[str] = set()  # what the next call reads a last time and overwrites
        self._arriving: set[str] = set()  # what takes that over, and may be changed in place by the next call

    def is_readable(self, name: str) -> bool:
        """Whether a buffer holds something."""
        buffer = self._draft.buffers.get(name)
        is_made = buffer is not None and (buffer.kind is not BufferKind.INTERMEDIATE or name in self._written)
        return is_made and name not in self._released | self._overwritten

    def run(self, step: Step | PlanStep) -> Iterator[tuple[PlanRule, str]]:
        """Does a step, and tells what is wrong about it."""
        match step:
            case Nest():
                yield from self._nest(step)
            case Contraction():
                touched = effects(step)
                yield from self._reads(touched.reads)
                yield from self._exist((*touched.writes, *handed_on(step)))
                self._written.update(touched.writes)
            case Launch():
                yield from self._launch(step)
            case Extern():
                filled = set(step.mutates) if step.target in _FILLS else set()
                named_in = [*(view.buffer for view in step.views()), *step.measured, *step.mutates]
                yield from self._reads(name for name in named_in if name not in self._arriving | filled)
                self._written.update(filter(None, step.outputs))
                self._written.update(filled)
                self._written.update(self._arriving.intersection(step.mutates))
                self._block.update((name, name) for name in step.outputs if name)
                yield from self._exist(filter(None, step.outputs))
            case Allocate():
                yield from self._exist([step.buffer])
                self._block[step.buffer] = step.buffer
            case Reuse():
                yield from self._reuse(step)
            case Release():
                # A name whose memory another took over still holds that memory, and has to let go of it too.
                yield from self._reads(name for name in step.buffers if name not in self._overwritten)
                self._released.update(step.buffers)
                self._overwritten.difference_update(step.buffers)
        if isinstance(step, Launch | Extern):
            self._overwritten |= self._leaving
            self._leaving, self._arriving = set(), set()

    def _exist(self, names: Iterable[str]) -> Iterator[tuple[PlanRule, str]]:
        for name in names:
            if name not in self._draft.buffers:
                yield PlanRule.NAMES, f"there is no buffer {name}"

    def _reads(self, names: Iterable[str]) -> Iterator[tuple[PlanRule, str]]:
        for name in names:
            if name not in self._draft.buffers:
                yield PlanRule.NAMES, f"there is no buffer {name}"
            elif name in self._released | self._overwritten:
                yield PlanRule.WRITTEN_FIRST, f"{name} is gone: it was released, or its memory taken over"
            elif not self.is_readable(name):
                yield PlanRule.WRITTEN_FIRST, f"nothing has written {name}"

    def _nest(self, nest: Nest) -> Iterator[tuple[PlanRule, str]]:
        for value in nest.body:
            if isinstance(value, Load):
                yield from self._reads([value.buffer])
            elif isinstance(value, Store):
                yield from self._exist([value.buffer])
                self._written.add(value.buffer)

    def _launch(self, launch: Launch) -> Iterator[tuple[PlanRule, str]]:
        kernel = self._draft.kernels.get(launch.kernel)
        if kernel is None:
            yield PlanRule.NAMES, f"there is no kernel {launch.kernel}"
            return
        made: list[str] = []
        for group in launch.groups:
            arguments = self._arguments(kernel, group)
            yield from self._reads(name for name, access in arguments if access is not Access.WRITE)
            made += [name for name, access in arguments if access is not Access.READ]
            yield from self._aliases(kernel, group)
        for name in made:
            yield from self._exist([name])
            buffer = self._draft.buffers.get(name)
            is_ours = buffer is not None and buffer.kind is BufferKind.INTERMEDIATE
            if self._is_placed and is_ours and name not in self._block:
                yield PlanRule.WRITTEN_FIRST, f"{name} has no memory yet"
        self._written.update(made)

    @staticmethod
    def _arguments(kernel: KernelPlan, group: Group) -> list[tuple[str, Access]]:
        pointers = [pointer for pointer in kernel.pointers if not pointer.scratch]
        return [(name, pointer.access) for pointer, name in zip(pointers, group.buffers, strict=False)]

    def _aliases(self, kernel: KernelPlan, group: Group) -> Iterator[tuple[PlanRule, str]]:
        """Two arguments in one memory, of which one is written, must be said to be one memory."""
        pointers = [pointer for pointer in kernel.pointers if not pointer.scratch]
        blocks: dict[str, list[int]] = {}
        for place, name in enumerate(group.buffers[: len(pointers)]):
            blocks.setdefault(self._block.get(name, name), []).append(place)
        for places in blocks.values():
            for one in places:
                for other in places:
                    first, second = pointers[one], pointers[other]
                    is_told = second.name in first.may_alias
                    if one != other and first.access is not Access.READ and not is_told:
                        names = f"{group.buffers[one]} and {group.buffers[other]}"
                        yield PlanRule.ALIASES, f"{names} share memory, which the kernel does not expect"

    def _reuse(self, step: Reuse) -> Iterator[tuple[PlanRule, str]]:
        yield from self._exist([step.buffer])
        yield from self._reads([step.of])
        if step.buffer not in self._draft.buffers or step.of not in self._draft.buffers:
            return
        new, old = self._draft.buffers[step.buffer], self._draft.buffers[step.of]
        if old.kind is not BufferKind.INTERMEDIATE or step.of in self._draft.kept:
            yield PlanRule.ALIASES, f"the memory of {step.of} is the caller's"
        if new.dtype is not old.dtype:
            yield PlanRule.DTYPES, f"{new.dtype} in the memory of {old.dtype}"
        if not same(product(new.shape), product(old.shape)):
            yield PlanRule.INSIDE, f"{step.buffer} and {step.of} differ in size"
        self._block[step.buffer] = self._block.get(step.of, step.of)
        if step.in_place:
            self._leaving.add(step.of)
            self._arriving.add(step.buffer)
        else:
            self._overwritten.add(step.of)
