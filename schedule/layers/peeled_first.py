"""The run before a loop that begins differently: block 0, whose norm is fused with the embedding, say.

Where the steps right before a loop end as each of its runs does, the block's forward() is printed in two parts, and the
run before the loop calls the second: ``x, mlp = self.blocks[0].after_ln_1(x, ln_1)``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from longhand.lower.ir import Buffer, Derived, Extern, View
from longhand.schedule.plan import Allocate, Launch, PlanStep, Release, Reuse, buffers_made, buffers_read

FEWEST = 4  # launches and library calls that are worth a call


@dataclasses.dataclass(frozen=True)
class FirstRun:
    """What the run before a loop shares with the loop's runs.

    Attributes:
        n_before: How many of the steps before the loop are its own.
        rest: The shared steps of the run before.
        n_head: How many steps of each of the loop's runs come before the shared ones.
        buffers: For each buffer of the loop's first run: the one in its place.
    """

    n_before: int
    rest: tuple[PlanStep, ...]
    n_head: int
    buffers: Mapping[str, str]


def find_first_run(
    before: Sequence[PlanStep],
    run: Sequence[PlanStep],
    weights: Mapping[str, str],
    memory: Mapping[str, Buffer],
) -> FirstRun | None:
    """The longest common end of the steps before a loop and its first run; None if it is short or the whole run.

    Args:
        before: The steps right before the loop.
        run: The loop's first run.
        weights: The run's own weights, and what stands for each in the block before.
        memory: The plan's buffers.
    """
    left = [n for n, step in enumerate(before) if not isinstance(step, Release)]
    right = [n for n, step in enumerate(run) if not isinstance(step, Release)]
    for length in range(min(len(left), len(right) - 1), 0, -1):
        pairs = [(before[a], run[b]) for a, b in zip(left[-length:], right[-length:], strict=True)]
        if sum(isinstance(step, Launch | Extern) for step, _ in pairs) < FEWEST:
            return None
        buffers = _matched(pairs, weights, memory)
        if buffers is not None and _is_closed(pairs, buffers):
            start = left[-length]
            return FirstRun(start, tuple(before[start:]), right[-length], buffers)
    return None


def matching_buffers(
    first: Sequence[PlanStep],
    second: Sequence[PlanStep],
    weights: Mapping[str, str],
    memory: Mapping[str, Buffer],
) -> dict[str, str] | None:
    """For each buffer of the second run the first's in its place; None if they do not do the same.

    Args:
        first: The steps of a run.
        second: Of another.
        weights: The second run's own weights, and what stands for each in the first.
        memory: The plan's buffers.
    """
    left, right = ([step for step in run if not isinstance(step, Release)] for run in (first, second))
    same = len(left) == len(right)
    return _matched(list(zip(left, right, strict=True)), weights, memory) if same else None


def _is_closed(pairs: Sequence[tuple[PlanStep, PlanStep]], buffers: Mapping[str, str]) -> bool:
    """Whether no buffer begins in the one run's steps and outside of the other's."""
    made = {name for step, _ in pairs for name in buffers_made(step)}
    twins = {name for _, step in pairs for name in buffers_made(step)}
    return all((buffers[name] in made) == (name in twins) for name in buffers)


def _matched(
    pairs: Sequence[tuple[PlanStep, PlanStep]], weights: Mapping[str, str], memory: Mapping[str, Buffer]
) -> dict[str, str] | None:
    """For each buffer of the second run's steps the first's; None if the steps do not correspond.

    Buffers in one place are alike: a kernel may see the same in (batch, height * width, channels) and in (batch,
    height, width, channels), but the function around it takes sizes from their shapes.
    """
    counterparts: dict[str, str] = {}
    back: dict[str, str] = {}
    for first, second in pairs:
        named = buffer_pairs(first, second)
        if named is None:
            return None
        for one, other in named:
            if other in weights and weights[other] != one:
                return None
            if one and not _are_alike(memory[one], memory[other]):  # no name: a result that nothing reads
                return None
            if counterparts.setdefault(other, one) != one or back.setdefault(one, other) != other:
                return None
    return counterparts


def _are_alike(one: Buffer, other: Buffer) -> bool:
    # What a layout is derived of has another name in each layer; that it corresponds, the step that makes it says.
    plain = dataclasses.replace(one, name=other.name, kind=other.kind, derived=_unnamed(one))
    return plain == dataclasses.replace(other, derived=_unnamed(other))


def _unnamed(buffer: Buffer) -> Derived | None:
    return None if buffer.derived is None else dataclasses.replace(buffer.derived, of="")


def buffer_pairs(first: PlanStep, second: PlanStep) -> list[tuple[str, str]] | None:
    """The buffers of two steps that do the same, place by place; None if they do not."""
    match first, second:
        case Launch(), Launch():
            alike = _plain_launch(first) == _plain_launch(second)
            return list(zip(first.touched, second.touched, strict=True)) if alike else None
        case Extern(), Extern():
            one, other = _flat((first.args, first.kwargs)), _flat((second.args, second.kwargs))
            alike = first.target == second.target and _plain(one) == _plain(other)
            alike = alike and first.memory_format == second.memory_format
            made = [(*step.outputs, *step.mutates) for step in (first, second)]
            alike = alike and tuple(map(bool, first.outputs)) == tuple(map(bool, second.outputs))
            alike = alike and len(first.mutates) == len(second.mutates)
            return (
                list(zip([*_buffers(one), *made[0]], [*_buffers(other), *made[1]], strict=True))
                if alike
                else None
            )
        case Allocate(), Allocate():
            return [(first.buffer, second.buffer)] if first.is_result == second.is_result else None
        case Reuse(), Reuse():
            named = [(first.buffer, second.buffer), (first.of, second.of)]
            return named if first.in_place == second.in_place else None
    return None


def _plain_launch(step: Launch) -> tuple[Any, ...]:
    return step.kernel, tuple(group.sizes for group in step.groups), step.ints, step.scalars


def _flat(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return ["(", *(item for part in value for item in _flat(part)), ")"]
    return [value]


def _plain(items: Sequence[Any]) -> list[Any]:
    return [dataclasses.replace(item, buffer="") if isinstance(item, View) else item for item in items]


def _buffers(items: Sequence[Any]) -> list[str]:
    return [item.buffer for item in items if isinstance(item, View)]


def read_from_outside(steps: Sequence[PlanStep], inside: frozenset[str]) -> tuple[str, ...]:
    """What steps read that they do not make, in order of first use; `inside` is at hand anyway."""
    made: set[str] = set()
    read_names: dict[str, None] = {}
    for step in steps:
        for name in buffers_read(step):
            if name not in made and name not in inside:
                read_names[name] = None
        made.update(buffers_made(step))
    return tuple(read_names)
