"""The steps of a function by themselves: without what its caller drops, and with the calls among them by place."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from longhand.schedule.functions.alike_releases import released_behind
from longhand.schedule.functions.call_records import SharedCall
from longhand.schedule.layers.outside import made_inside
from longhand.schedule.plan import PlanStep, Release


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
