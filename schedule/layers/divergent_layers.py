"""Layers that do nearly what the others of a loop do: one with another activation, say, stays in the loop.

A repeat of the plan ends where a layer differs. If the runs before and after it, and the layer itself but for a few
calls, are one another's equals, all of them are one repeat here, and its odd runs say what they do instead: model.py
prints ``if self.layer == 3: ... else: ...`` in the one function.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence

from longhand.lower.ir import View
from longhand.schedule.layers.divergent_runs import Alternative, Run, RunMatcher, alternatives_of
from longhand.schedule.plan import PlanStep, Release, Repeat, UnitPlan, UnitStep, buffers_made, buffers_read


@dataclasses.dataclass(frozen=True)
class UnevenRepeat(Repeat):
    """A repeat some of whose runs differ in a few steps.

    Attributes:
        pattern: The number of a run that does what most do.
        alternatives: What the others do; their stretches of the pattern are the same or apart.
    """

    pattern: int = 0
    alternatives: tuple[Alternative, ...] = ()


def without_first(repeat: Repeat, count: int) -> Repeat:
    """The repeat without its first runs, of which a pattern is none."""
    rest = dataclasses.replace(
        repeat,
        runs=repeat.runs[count:],
        paths=repeat.paths[count:],
        inputs=repeat.inputs[count:],
        outputs=repeat.outputs[count:],
        own=repeat.own[count:],
        previous=repeat.previous[count:],
        following=repeat.following[count:],
    )
    if not isinstance(rest, UnevenRepeat):
        return rest
    moved = (
        dataclasses.replace(one, runs=tuple(run - count for run in one.runs if run >= count))
        for one in rest.alternatives
    )
    return dataclasses.replace(
        rest, pattern=rest.pattern - count, alternatives=tuple(one for one in moved if one.runs)
    )


def n_unlike(repeat: Repeat) -> int:
    """How many of the first runs are given the same buffer in other places than the last ones.

    The first run may have to leave alone what the later ones take over, an argument of the call for instance.
    """
    patterns = [tuple(run.index(name) for name in run) for run in repeat.inputs]
    n_first = len(patterns)
    while n_first and patterns[n_first - 1] == patterns[-1]:
        n_first -= 1
    return n_first


def join_divergent_layers(plan: UnitPlan) -> tuple[UnitStep, ...]:
    """The plan's steps; a repeat and the odd layers beside it are one repeat where that is possible."""
    steps: tuple[UnitStep, ...] = tuple(plan.steps)
    if (
        plan.program.graph.paths
    ):  # a backward pass: what the forward saved for a layer is not told by its path
        return steps
    while True:
        repeats = [
            place
            for place, step in enumerate(steps)
            if type(step) is Repeat and not step.kinds and step.family is None
        ]
        joined = [merged for place in repeats if (merged := _Joint(plan, steps, place).joined()) is not None]
        if not joined:
            return steps
        steps = max(joined, key=_n_alike)


def _n_alike(steps: Sequence[UnitStep]) -> tuple[int, int]:
    """How many runs uneven repeats have, and how many of them do what most do."""
    uneven = [step for step in steps if isinstance(step, UnevenRepeat)]
    n_odd = sum(len(one.runs) for step in uneven for one in step.alternatives)
    n_runs = sum(len(step.runs) for step in uneven)
    return n_runs, n_runs - n_odd


class _Joint:
    """One repeat, and the steps around it that may be further runs of it."""

    def __init__(self, plan: UnitPlan, steps: Sequence[UnitStep], place: int) -> None:
        repeat = steps[place]
        assert isinstance(repeat, Repeat)
        self.repeat = repeat
        self.before, self.after = steps[:place], steps[place + 1 :]
        self.results = {result.buffer for result in plan.results if isinstance(result, View)}
        self.first = min(n_unlike(repeat), len(repeat.runs) - 1)
        self.matcher = RunMatcher(
            plan,
            repeat.runs[self.first],
            repeat.paths[self.first],
            repeat.inputs[self.first],
            repeat.outputs[self.first],
            tuple(repeat.outputs[0].index(name) for name in repeat.inputs[1]),
        )

    def joined(self) -> tuple[UnitStep, ...] | None:
        """All steps with the longer repeat; None if no further run is one of it."""
        owners, positions = _places(self.repeat.paths)
        if any(self.repeat.previous) or any(self.repeat.following) or self.repeat.numbers:
            return None
        if len(owners) != 1 or "" in owners or not positions:
            return None
        owner = next(iter(owners))
        first, last = self._own(0), self._own(-1)
        if first is None or last is None:
            return None
        earlier, n_kept = self._earlier(first, owner, positions[0])
        later, n_taken = self._later(last, owner, positions[-1])
        if not earlier and not later:
            return None
        even = [run for run in map(self._own, range(len(self.repeat.runs))) if run is not None]
        if len(even) < len(self.repeat.runs):
            return None
        flat_before, flat_after = _flat(self.before), _flat(self.after)
        dropped = [*flat_before[n_kept:], *flat_after[:n_taken]]
        repeat = self._repeat([*earlier, *even, *later], flat_after[n_taken:], len(earlier))
        if repeat is None:
            return None
        released = _released(dropped, repeat)
        return (*_first(self.before, n_kept), repeat, *released, *_without_first(self.after, n_taken))

    def _own(self, number: int) -> Run | None:
        """One of the repeat's runs."""
        return self.matcher.match(self.repeat.runs[number], self.repeat.paths[number])

    def _later(self, last: Run, owner: str, position: int) -> tuple[list[Run], int]:
        """The runs right after the repeat, and how many steps they are."""
        flat, taken, later_runs = _flat(self.after), 0, list[Run]()
        while self.matcher.may_be(f"{owner}.{position + 1}"):
            position += 1
            places = [n for n, step in enumerate(flat) if n >= taken and not isinstance(step, Release)]
            ends = [places[length - 1] + 1 for length in self.matcher.lengths if length <= len(places)]
            runs = [(self.matcher.match(flat[taken:end], f"{owner}.{position}"), end) for end in ends]
            linked = [(run, end) for run, end in runs if run and self.matcher.are_linked(last, run)]
            if not linked:
                break
            last, taken = min(linked, key=lambda one: one[0].n_different)
            later_runs.append(last)
        return later_runs, taken

    def _earlier(self, first: Run, owner: str, position: int) -> tuple[list[Run], int]:
        """The runs right before the repeat, and how many steps come before them."""
        flat, earlier_runs = _flat(self.before), list[Run]()
        kept = len(flat)
        while position and self.matcher.may_be(f"{owner}.{position - 1}"):
            position -= 1
            places = [n for n, step in enumerate(flat) if n < kept and not isinstance(step, Release)]
            begins = [places[-length] for length in self.matcher.lengths if length <= len(places)]
            runs = [(self.matcher.match(flat[begin:kept], f"{owner}.{position}"), begin) for begin in begins]
            linked = [(run, begin) for run, begin in runs if run and self.matcher.are_linked(run, first)]
            if not linked:
                break
            first, kept = min(linked, key=lambda one: one[0].n_different)
            earlier_runs.insert(0, first)
        return earlier_runs, kept

    def _repeat(self, runs: Sequence[Run], later: Iterable[PlanStep], n_earlier: int) -> UnevenRepeat | None:
        """The runs as one repeat, if they hand on alike what is read after them."""
        matcher = self.matcher
        read_later = self.results.union(*(buffers_read(step) for step in later))
        carried = {matcher.outputs[place] for place in matcher.carried}
        wanted = {name for name in matcher.outputs if name in carried}
        reads = [{name for step in run.steps for name in buffers_read(step)} for run in runs]
        by_all = {name for step in self.repeat.runs[self.first] for name in buffers_made(step)}
        for number, run in enumerate(runs):
            twins = {other: name for name, other in run.buffers.items()}
            made = {
                name for step in run.steps for name in buffers_made(step) if twins.get(name) not in by_all
            }
            if any(made & others for place, others in enumerate(reads) if place != number):
                return None  # what this run alone makes would be out of the others' reach
            for name in (name for step in run.steps for name in buffers_made(step) if name in read_later):
                if name not in twins:
                    return None
                wanted.add(twins[name])
        order = dict.fromkeys((*(n for n in matcher.outputs if n in wanted), *sorted(wanted)))
        alternatives = alternatives_of(runs)
        if alternatives is None or any(name not in run.buffers for run in runs for name in order):
            return None
        return UnevenRepeat(
            tuple(run.steps for run in runs),
            tuple(run.path for run in runs),
            tuple(tuple(run.buffers[name] for name in matcher.inputs) for run in runs),
            tuple(tuple(run.buffers[name] for name in order) for run in runs),
            pattern=n_earlier + self.first,
            alternatives=alternatives,
        )


def _places(paths: Sequence[str]) -> tuple[set[str], list[int]]:
    """The lists that hold the modules, and their places in it if these follow each other; else none."""
    lasts = [path.rpartition(".")[2] for path in paths]
    positions = [int(last) for last in lasts if last.isdigit()]
    follow = all(b == a + 1 for a, b in itertools.pairwise(positions)) and len(positions) == len(paths)
    return {path.rpartition(".")[0] for path in paths}, positions if follow else []


def _released(steps: Iterable[PlanStep], repeat: UnevenRepeat) -> list[Release]:
    """What the steps that became runs drop of what was made before them all."""
    inside = {name for run in repeat.runs for step in run for name in buffers_made(step)}
    names = [name for step in steps if isinstance(step, Release) for name in step.buffers]
    outside = tuple(name for name in names if name not in inside and name not in repeat.inputs[0])
    return [Release(outside)] if outside else []


def _flat(steps: Iterable[UnitStep]) -> list[PlanStep]:
    return [one for step in steps for one in (_flat_runs(step) if isinstance(step, Repeat) else [step])]


def _flat_runs(repeat: Repeat) -> list[PlanStep]:
    return [step for run in repeat.runs for step in run]


def _first(steps: Sequence[UnitStep], count: int) -> list[UnitStep]:
    """The first `count` plain steps; repeats stay where they are among them wholly."""
    first_steps: list[UnitStep] = []
    for step in steps:
        plain = _flat([step])
        if len(plain) > count:
            return [*first_steps, *plain[:count]]
        first_steps.append(step)
        count -= len(plain)
    return first_steps


def _without_first(steps: Sequence[UnitStep], count: int) -> list[UnitStep]:
    """All but the first `count` plain steps; repeats stay where they are among the rest wholly."""
    for place, step in enumerate(steps):
        if count <= 0:
            return list(steps[place:])
        plain = _flat([step])
        if len(plain) > count:
            return [*plain[count:], *steps[place + 1 :]]
        count -= len(plain)
    return []
