"""What each step of a long derivative is: in which modules it stands, what it names, how many lines tell it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from longhand.lower.ir import Extern
from longhand.schedule.functions.alike_calls import modules_around
from longhand.schedule.layers.model_steps import ModelStep, plain_steps
from longhand.schedule.layers.outside import references
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.view_names import named_views, view_key
from longhand.schedule.plan import Allocate, Launch, PlanStep, Release, Reuse, UnitStep

_ON_A_LINE = 7  # arguments of a launch


def modules_of_step(step: ModelStep, words: BufferNamer) -> dict[str, str] | None:
    """The modules that all operations of a call stand in, and their classes; None for memory."""
    if isinstance(step, Allocate | Reuse | Release):
        return None
    if isinstance(step, PlanStep):
        return dict(modules_around(step, words))
    common: dict[str, str] | None = None
    for plain in plain_steps(step):
        for one in _calls_in(plain):
            around = modules_around(one, words)
            common = dict(around) if common is None else {p: c for p, c in common.items() if p in around}
    return common or {}


def _calls_in(step: UnitStep) -> list[PlanStep]:
    inside = [step] if isinstance(step, PlanStep) else [one for run in step.runs for one in run]
    return [one for one in inside if isinstance(one, Launch | Extern)]


def is_copy(step: ModelStep) -> bool:
    """Whether a call does nothing but copy a tensor into the layout in which loops read it."""
    return isinstance(step, Extern) and step.target is torch.ops.aten.contiguous.default


def named_by(step: ModelStep) -> Iterator[str]:
    """Every buffer that a step names, but to drop it."""
    for plain in plain_steps(step):
        inside = [plain] if isinstance(plain, PlanStep) else [one for run in plain.runs for one in run]
        for one in inside:
            if not isinstance(one, Release):
                yield from references(one)
        if not isinstance(plain, PlanStep):
            yield from (name for each in (*plain.inputs, *plain.outputs) for name in each)


def lines_of_step(step: ModelStep) -> float:
    """How many lines tell a step, roughly, with what stands between paragraphs."""
    if isinstance(step, Launch):
        n_given = len(step.buffers) + len(step.sizes) + len(step.ints) + len(step.scalars)
        return 1.5 if n_given <= _ON_A_LINE else n_given + 2.5
    if isinstance(step, Extern):
        return 2.0
    return 0.5 if isinstance(step, Release) else 1.0 if isinstance(step, PlanStep) else 2.0


def views_bound(
    steps: Sequence[ModelStep], variables: Mapping[str, str], words: BufferNamer
) -> dict[str, list[int]]:
    """By variable: where it is bound to a view."""
    places: dict[str, list[int]] = {}
    for place, step in enumerate(steps):
        if isinstance(step, Extern):
            for key in (key for line in named_views(step, words) for key in line.keys):
                places.setdefault(variables.get(view_key(step, key), ""), []).append(place)
    return places
