"""When memory is dropped in a function that stands for several modules: as soon as it is in any of them.

The plan drops memory where the peak asks for it, which may be in the deep stages of a model and not in the first. What
one module no longer reads after a step, no other reads either: they do the same. A function's own steps are without
what its caller drops.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from longhand.schedule.functions.call_records import SharedCall
from longhand.schedule.layers.outside import made_inside
from longhand.schedule.plan import PlanStep, Release


def places_without_releases(steps: Sequence[PlanStep]) -> list[int]:
    """The places of all other steps."""
    return [place for place, step in enumerate(steps) if not isinstance(step, Release)]


def released_behind(
    steps: Sequence[PlanStep], spans: Sequence[tuple[int, int, Collection[str]]]
) -> tuple[list[PlanStep], list[tuple[int, int]]]:
    """The steps, with what a caller drops of what it gives a call dropped behind that; and where each call is then.

    Args:
        steps: Of one module.
        spans: For each call, in order: its first step, the one after its last, and what its caller drops.
    """
    made: list[PlanStep] = []
    places: list[tuple[int, int]] = []
    done = 0
    for start, stop, dropped in spans:
        made += steps[done:start]
        own = [_without(step, dropped) for step in steps[start:stop]]
        run = [step for step in own if not isinstance(step, Release) or step.buffers]
        end = places_without_releases(run)[-1] + 1
        places.append((len(made), end))
        last = [name for step in run[end:] if isinstance(step, Release) for name in step.buffers]
        made += run[:end]
        made += [Release((*last, *dropped))] if last or dropped else []
        done = stop
    return [*made, *steps[done:]], places


def _without(step: PlanStep, names: Collection[str]) -> PlanStep:
    if not isinstance(step, Release):
        return step
    return Release(tuple(name for name in step.buffers if name not in names))


def united_releases(
    sites: Sequence[Sequence[PlanStep]], numbers: Sequence[Mapping[str, int]], fixed: frozenset[int]
) -> list[list[PlanStep]]:
    """The steps of each module, with a buffer dropped in all of them where it first is in one.

    Args:
        sites: The steps of each: the same ones in each but for releases.
        numbers: For each, by the buffers that it makes: which of them it is, in all modules alike.
        fixed: Which steps have releases behind them that belong to another function, by their number among all but
            releases: those stay as they are.
    """
    first: dict[int, int] = {}  # by buffer: after which step it is dropped
    kept: set[int] = set()
    for steps, number in zip(sites, numbers, strict=True):
        for place, step in _with_places(steps):
            for name in step.buffers if isinstance(step, Release) else ():
                one = number[name]
                first[one] = min(first.get(one, place), place)
                kept |= {one} if place in fixed else set()
    dropped: dict[int, list[int]] = {}
    for one, place in first.items():
        if one not in kept:
            dropped.setdefault(place, []).append(one)
    return [_placed(steps, number, dropped, kept) for steps, number in zip(sites, numbers, strict=True)]


def _with_places(steps: Sequence[PlanStep]) -> list[tuple[int, PlanStep]]:
    """Each step, with the number of the last one up to it that is no release."""
    placed_steps: list[tuple[int, PlanStep]] = []
    place = -1
    for step in steps:
        place += not isinstance(step, Release)
        placed_steps.append((place, step))
    return placed_steps


def _placed(
    steps: Sequence[PlanStep],
    number: Mapping[str, int],
    dropped: Mapping[int, Sequence[int]],
    kept: set[int],
) -> list[PlanStep]:
    names = {one: name for name, one in number.items()}
    placed_steps: list[PlanStep] = []
    told = _with_places(steps)
    for at, (place, step) in enumerate(told):
        if isinstance(step, Release):
            own = tuple(name for name in step.buffers if number[name] in kept)
            placed_steps += [Release(own)] if own else []
        else:
            placed_steps.append(step)
        if at + 1 == len(told) or told[at + 1][0] > place:  # the last before another step
            united = tuple(names[one] for one in sorted(dropped.get(place, ())))
            placed_steps += [Release(united)] if united else []
    return placed_steps


def own_steps(
    steps: Sequence[PlanStep], calls: Mapping[int, SharedCall], dropped: Collection[str] = ()
) -> tuple[tuple[PlanStep, ...], dict[int, SharedCall]]:
    """Steps without releases of what came from outside, and the calls among them by place.

    Args:
        steps: Of a module.
        calls: By the identity of the first of the steps that they stand for.
        dropped: What comes from outside and is dropped here all the same.
    """
    made = {*made_inside(steps), *dropped}
    own: list[PlanStep] = []
    places: list[int] = []  # of each step: that of the first one kept from it on
    for step in steps:
        places.append(len(own))
        if isinstance(step, Release):
            kept = tuple(name for name in step.buffers if name in made)
            own += [Release(kept)] if kept else []
        else:
            own.append(step)
    places.append(len(own))
    at = {
        places[place]: dataclasses.replace(
            call,
            n_steps=places[place + call.n_steps] - places[place],
            released=tuple(name for name in call.released if name in made),
        )
        for place, step in enumerate(steps)
        if (call := calls.get(id(step))) is not None
    }
    return tuple(own), at


def releases_behind(
    steps: Sequence[PlanStep], calls: Mapping[int, SharedCall]
) -> tuple[list[PlanStep], dict[int, SharedCall]]:
    """The steps and the calls among them, with what their caller drops behind the calls."""
    order = sorted(calls)
    spans = [(place, place + calls[place].n_steps, calls[place].released) for place in order]
    moved, places = released_behind(steps, spans)
    told = zip(order, places, strict=True)
    return moved, {to: dataclasses.replace(calls[one], n_steps=n, released=()) for one, (to, n) in told}
