"""Whether steps are a run of a repeat but for a stretch, and what they do instead of that.

The steps are laid beside the pattern from both ends. What is left in the middle must be short, and may name nothing
that the pattern's function does not have at hand.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from longhand.capture.graph import CapturedGraph, GraphInput
from longhand.lower.ir import Extern
from longhand.schedule.layers.listed_inputs import listed_inputs
from longhand.schedule.layers.peeled_first import buffer_pairs
from longhand.schedule.plan import (
    Launch,
    PlanStep,
    Release,
    UnitPlan,
    buffers_made,
    buffers_read,
    touched,
)
from longhand.schedule.renaming import renamed_plan_step

MOST_THAT_DIFFERS = 3  # one call in so many


@dataclasses.dataclass(frozen=True)
class Alternative:
    """What some runs of a repeat do in place of a stretch of the pattern's steps.

    Attributes:
        runs: The runs, by number.
        start: The first of the pattern's steps that they do not do.
        stop: The one after the last of them.
        steps: What they do, on the pattern's buffers.
    """

    runs: tuple[int, ...]
    start: int
    stop: int
    steps: tuple[PlanStep, ...]


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of a repeat.

    Attributes:
        steps: Its steps.
        path: The module that it is.
        buffers: For the pattern's buffers: its own in their place.
        start: The first of the pattern's steps that it does not do.
        stop: The one after the last of them.
        other: The steps that it does instead, on the pattern's buffers.
    """

    steps: tuple[PlanStep, ...]
    path: str
    buffers: Mapping[str, str]
    start: int
    stop: int
    other: tuple[PlanStep, ...]

    @property
    def n_different(self) -> int:
        """How many steps differ."""
        return self.stop - self.start + len(self.other)

    @property
    def is_odd(self) -> bool:
        """Whether any does."""
        return self.n_different > 0


class RunMatcher:
    """Compares steps with one run of a repeat, the pattern.

    Args:
        plan: The unit's.
        pattern: The steps of the run.
        path: The path of its module.
        inputs: What it takes from the run before.
        outputs: What it hands on.
        carried: For each input: its place among the outputs of the run before.
    """

    def __init__(
        self,
        plan: UnitPlan,
        pattern: tuple[PlanStep, ...],
        path: str,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        carried: tuple[int, ...],
    ) -> None:
        self.inputs, self.outputs, self.carried = inputs, outputs, carried
        self._pattern, self._path = pattern, path
        self._plain = without_releases(pattern)
        self._buffers = plan.buffers
        self._graph = plan.program.graph
        self._targets = {entry.node: entry.target for entry in held_inputs(self._graph)}
        self._targets |= {name: one.path for name, one in listed_inputs(self._graph).items()}
        self._nodes = {target: node for node, target in self._targets.items()}
        self._made = _made(pattern)
        self._read = {name for step in pattern for name in buffers_read(step)}

    @property
    def lengths(self) -> list[int]:
        """How many steps a run may have, the pattern's number first."""
        length = len(self._plain)
        span = length // MOST_THAT_DIFFERS
        return sorted(range(max(1, length - span), length + span + 1), key=lambda n: (abs(n - length), n))

    def may_be(self, path: str) -> bool:
        """Whether there is a module of which a run could be: one class can make it and the pattern's."""
        return hold_the_same(self._graph, self._path, path)

    def match(self, steps: Sequence[PlanStep], path: str) -> Run | None:
        """Steps as a run of the pattern; None if they differ too much.

        Args:
            steps: All steps of the run.
            path: The module that it is, which holds the same as the pattern's.
        """
        run = without_releases(steps)
        twins = _Twins(self._fits(path, _made(run)))
        shorter = min(len(run), len(self._plain))
        n_head = n_tail = 0
        while n_head < shorter and twins.add(self._plain[n_head], run[n_head]):
            n_head += 1
        while n_tail < shorter - n_head and twins.add(self._plain[-1 - n_tail], run[-1 - n_tail]):
            n_tail += 1
        start, stop = self._stretch(n_head, len(self._plain) - n_tail)
        own, other = self._pattern[start:stop], run[n_head : len(run) - n_tail]
        if MOST_THAT_DIFFERS * max(_n_calls(own), _n_calls(other)) > _n_calls(self._plain):
            return None
        renamed = self._on_patterns_buffers(other, twins.of, path)
        if renamed is None or not {*self.inputs, *self.outputs} <= twins.of.keys():
            return None
        kept = (*self._pattern[:start], *self._pattern[stop:])
        dropped = {name for step in kept if isinstance(step, Release) for name in step.buffers}
        if not dropped & self._made <= twins.of.keys():
            return None
        return Run(tuple(steps), path, dict(twins.of), start, stop, renamed)

    def are_linked(self, before: Run, after: Run) -> bool:
        """Whether a run takes what the one before it hands on, as the repeat's runs do."""
        return all(
            after.buffers[name] == before.buffers[self.outputs[place]]
            for name, place in zip(self.inputs, self.carried, strict=True)
        )

    def _fits(self, path: str, made: set[str]) -> Callable[[str, str], bool]:
        """Whether a buffer may stand in the place of the pattern's."""

        def fits(name: str, other: str) -> bool:
            target = self._targets.get(name, "")
            if target.startswith(f"{self._path}."):
                return self._nodes.get(f"{path}{target[len(self._path) :]}") == other
            if name not in self._made and name not in self.inputs:
                return name == other
            one, twin = self._buffers[name], self._buffers[other]
            is_alike = dataclasses.replace(one, name=other, kind=twin.kind) == twin
            return is_alike and (name in self._made) == (other in made)

        return fits

    def _stretch(self, start: int, stop: int) -> tuple[int, int]:
        """A stretch of the steps without releases as one of the pattern's."""
        places = [n for n, step in enumerate(self._pattern) if not isinstance(step, Release)]
        if start == stop:
            place = places[start] if start < len(places) else len(self._pattern)
            return place, place
        return places[start], places[stop - 1] + 1

    def _on_patterns_buffers(
        self, steps: Sequence[PlanStep], twins: Mapping[str, str], path: str
    ) -> tuple[PlanStep, ...] | None:
        """A run's own steps on the pattern's buffers; None if they touch what the pattern's function does not have."""
        names = {other: name for name, other in twins.items()}
        inside = _made(steps)
        for name in (name for step in steps for name in touched(step)):
            if name in names or name in inside:
                continue
            target = self._targets.get(name, "")
            twin = name
            if target.startswith(f"{path}."):
                twin = self._nodes[f"{self._path}{target[len(path) :]}"]
            if twin not in self._read or twin in self._made or twin in self.inputs:
                return None
            names[name] = twin
        return tuple(_renamed(step, names) for step in steps)


def alternatives_of(runs: Sequence[Run]) -> tuple[Alternative, ...] | None:
    """What the odd runs do instead, those that do the same together; None if their stretches overlap."""
    alternatives: list[Alternative] = []
    for number, run in enumerate(runs):
        if not run.is_odd:
            continue
        for place, one in enumerate(alternatives):
            if (one.start, one.stop) == (run.start, run.stop) and _same_steps(one.steps, run.other):
                alternatives[place] = dataclasses.replace(one, runs=(*one.runs, number))
                break
        else:
            alternatives.append(Alternative((number,), run.start, run.stop, run.other))
    for one in alternatives:
        for other in alternatives:
            is_apart = one.stop <= other.start or other.stop <= one.start
            if (one.start, one.stop) != (other.start, other.stop) and not is_apart:
                return None
    return tuple(alternatives)


def held_inputs(graph: CapturedGraph) -> list[GraphInput]:
    """What the module holds of a graph's inputs."""
    return [entry for entry in graph.inputs if not entry.is_given]


def hold_the_same(graph: CapturedGraph, path: str, other: str) -> bool:
    """Whether one class can make the modules at two paths: they hold parameters and buffers of the same names."""

    def below(owner: str) -> dict[str, GraphInput]:
        head = f"{owner}."
        return {e.target[len(head) :]: e for e in held_inputs(graph) if e.target.startswith(head)}

    one, twin = below(path), below(other)
    if one.keys() != twin.keys():
        return False
    wanted = {entry.node for entry in (*one.values(), *twin.values())}
    values = {node.name: node.meta["val"] for node in graph.graph.nodes if node.name in wanted}
    return all(
        (entry.kind, entry.persistent) == (twin[name].kind, twin[name].persistent)
        and values[entry.node].dtype is values[twin[name].node].dtype
        and values[entry.node].shape == values[twin[name].node].shape
        for name, entry in one.items()
    )


def without_releases(steps: Sequence[PlanStep]) -> tuple[PlanStep, ...]:
    """The steps that do something."""
    return tuple(step for step in steps if not isinstance(step, Release))


class _Twins:
    """Which buffer of a run stands in the place of which of the pattern's: one for one."""

    def __init__(self, fits: Callable[[str, str], bool]) -> None:
        self._fits = fits
        self.of: dict[str, str] = {}
        self._back: dict[str, str] = {}

    def add(self, first: PlanStep, second: PlanStep) -> bool:
        """Takes a step of the pattern and one of the run as equal, if they can be."""
        pairs = buffer_pairs(first, second)
        if pairs is None:
            return False
        new: dict[str, str] = {}
        for name, other in pairs:
            if name in self.of or other in self._back:
                if self.of.get(name) != other or self._back.get(other) != name:
                    return False
            elif new.setdefault(name, other) != other or (name and not self._fits(name, other)):
                return False
        if len(set(new.values())) < len(new):
            return False
        self.of.update(new)
        self._back.update((other, name) for name, other in new.items())
        return True


def _same_steps(one: Sequence[PlanStep], other: Sequence[PlanStep]) -> bool:
    """Whether steps on the same buffers do the same; what they make inside may be called otherwise."""
    made = _made(one)
    twins = _Twins(lambda name, twin: name == twin or name in made)
    return len(one) == len(other) and all(map(twins.add, one, other))


def _made(steps: Sequence[PlanStep]) -> set[str]:
    return {name for step in steps for name in buffers_made(step) if name}


def _n_calls(steps: Sequence[PlanStep]) -> int:
    return sum(isinstance(step, Launch | Extern) for step in steps)


def _renamed(step: PlanStep, names: Mapping[str, str]) -> PlanStep:
    """The step on other buffers, for the nodes that it is for."""
    renamed = renamed_plan_step(step, names)
    if isinstance(step, Launch) and isinstance(renamed, Launch):
        return dataclasses.replace(renamed, origins=step.origins)
    if isinstance(step, Extern) and isinstance(renamed, Extern):
        return dataclasses.replace(renamed, origin=step.origin)
    return renamed
