"""Rules on steps in their order: written before read, memory there before it is written, shared only with leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from longhand.lower.ir import BufferKind, Contraction, Extern, Nest, Step
from longhand.lower.rules.breaches import PlanRule, RuleBreach, Surroundings, step_words
from longhand.lower.rules.nests import Breach
from longhand.lower.rules.order import StepMemory
from longhand.schedule.draft import Draft
from longhand.schedule.plan import (
    Access,
    Allocate,
    Group,
    KernelPlan,
    Launch,
    PlanStep,
    Release,
    Reuse,
    touched,
)
from longhand.schedule.sizes import product, same
from longhand.schedule.verification.launch_rules import launch_words


def memory_faults(
    steps: Sequence[Step | PlanStep], draft: Draft, around: Surroundings
) -> Iterator[RuleBreach]:
    """Breaches by the steps of a draft, repeats laid out one run after the other."""
    memory = _Memory(draft, around, is_placed=any(isinstance(step, Allocate | Reuse) for step in steps))
    for step in steps:
        for rule, what in memory.run(step):
            yield RuleBreach(rule, _words(step), what)
    yield from memory.lost()


def _words(step: Step | PlanStep) -> str:
    match step:
        case Nest() | Contraction() | Extern():
            return step_words(step)
        case Launch():
            return launch_words(step)
    return f"{type(step).__name__} of {', '.join(touched(step))}"


class _Memory(StepMemory):
    """What is where after some of the steps, which are launches that share memory from some pass on."""

    def __init__(self, draft: Draft, around: Surroundings, is_placed: bool) -> None:
        super().__init__(around)
        self._draft = draft
        self._is_placed = is_placed
        self._released: set[str] = set()
        self._overwritten: set[str] = set()  # by what took the memory over
        self._block: dict[str, str] = {}  # the first name of a buffer's memory
        self._leaving: set[str] = set()  # what the next call reads a last time and overwrites
        self._arriving: set[str] = set()  # what takes that over, and may be changed in place by the next call

    def is_readable(self, name: str) -> bool:
        """Whether a buffer holds something."""
        return super().is_readable(name) and not self.is_gone(name)

    def is_gone(self, name: str) -> bool:
        """Whether a buffer held something once."""
        return name in self._released | self._overwritten

    def run(self, step: Step | PlanStep) -> Iterator[Breach]:
        """Does a step, and tells what is wrong about it."""
        match step:
            case Nest() | Contraction():
                yield from self.loops(step)
            case Launch():
                yield from self._launch(step)
            case Extern():
                yield from self.call(step, self._arriving)
                self.written.update(self._arriving.intersection(step.mutates))
                self._block.update((name, name) for name in step.outputs if name)
            case Allocate():
                yield from self.exist([step.buffer])
                self._block[step.buffer] = step.buffer
            case Reuse():
                yield from self._reuse(step)
            case Release():
                # A name whose memory another took over still holds that memory, and has to let go of it too.
                yield from self.reads(name for name in step.buffers if name not in self._overwritten)
                self._released.update(step.buffers)
                self._overwritten.difference_update(step.buffers)
        if isinstance(step, Launch | Extern):
            self._overwritten |= self._leaving
            self._leaving, self._arriving = set(), set()

    def _launch(self, launch: Launch) -> Iterator[Breach]:
        kernel = self._draft.kernels.get(launch.kernel)
        if kernel is None:
            yield PlanRule.NAMES, f"there is no kernel {launch.kernel}"
            return
        made: list[str] = []
        for group in launch.groups:
            arguments = self._arguments(kernel, group)
            yield from self.reads(name for name, access in arguments if access is not Access.WRITE)
            made += [name for name, access in arguments if access is not Access.READ]
            yield from self._aliases(kernel, group)
        yield from self.writes(made)
        for name in made:
            buffer = self.around.buffers.get(name)
            is_ours = buffer is not None and buffer.kind is BufferKind.INTERMEDIATE
            if self._is_placed and is_ours and name not in self._block:
                yield PlanRule.WRITTEN_FIRST, f"{name} has no memory yet"
        self.written.update(made)

    @staticmethod
    def _arguments(kernel: KernelPlan, group: Group) -> list[tuple[str, Access]]:
        pointers = [pointer for pointer in kernel.pointers if not pointer.scratch]
        return [(name, pointer.access) for pointer, name in zip(pointers, group.buffers, strict=False)]

    def _aliases(self, kernel: KernelPlan, group: Group) -> Iterator[Breach]:
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

    def _reuse(self, step: Reuse) -> Iterator[Breach]:
        yield from self.exist([step.buffer])
        yield from self.reads([step.of])
        if step.buffer not in self.around.buffers or step.of not in self.around.buffers:
            return
        new, old = self.around.buffers[step.buffer], self.around.buffers[step.of]
        if old.kind is not BufferKind.INTERMEDIATE or step.of in self.around.kept:
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
