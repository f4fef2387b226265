"""What runs of steps make themselves, and what they take from outside: the buffers of steps, in the order of tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from longhand.lower.ir import Extern
from longhand.schedule.plan import Allocate, Launch, PlanStep, Release, Reuse


@dataclasses.dataclass(frozen=True)
class Outside:
    """What was there before the first step and may differ from run to run.

    Attributes:
        weights: The dotted path of each weight, by buffer.
        given: In a backward pass: what the forward pass saved.
        positions: By the path of a list of modules: the numbers of those with weights that steps read, in order.
    """

    weights: Mapping[str, str]
    given: frozenset[str]
    positions: Mapping[str, Sequence[int]]

    def are_neighbours(self, path: str, following: str) -> bool:
        """Whether two modules stand in one list, and none between them: a program may leave out equal layers."""
        (owner, _, last), (same_owner, _, position) = path.rpartition("."), following.rpartition(".")
        numbers = self.positions.get(owner, ())
        return owner == same_owner and (int(last), int(position)) in pairwise(numbers)


def positions_in_lists(paths: Iterable[str]) -> dict[str, list[int]]:
    """By the path of a list: the numbers of what is in it."""
    positions: dict[str, set[int]] = {}
    for path in paths:
        parts = path.split(".")
        for place, part in enumerate(parts):
            if part.isdigit():
                positions.setdefault(".".join(parts[:place]), set()).add(int(part))
    return {owner: sorted(numbers) for owner, numbers in positions.items()}


def made_inside(run: Sequence[PlanStep]) -> dict[str, int]:
    """The buffers that a run makes, numbered in order."""
    numbers: dict[str, int] = {}
    for step in run:
        names: tuple[str, ...] = ()
        if isinstance(step, Extern):
            names = tuple(name for name in step.outputs if name)
        elif isinstance(step, Allocate | Reuse):
            names = (step.buffer,)
        for name in names:
            numbers.setdefault(name, len(numbers))
    return numbers


def references(step: PlanStep) -> tuple[str, ...]:
    """The buffers that a step names, in the order of its token."""
    match step:
        case Launch():
            return step.touched
        case Extern():
            return (
                *(v.buffer for v in step.views()),
                *step.measured,
                *(name for name in step.outputs if name),
                *step.mutates,
            )
        case Allocate():
            return (step.buffer,)
        case Reuse():
            return (step.buffer, step.of)
        case Release():
            return step.buffers
    raise AssertionError(step)
