"""What the steps around a statement do with names: which memory is made, dropped, or bound anew."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

import torch

from longhand.lower.ir import Buffer, Extern
from longhand.schedule.named_plan import FirstCall, LayerCall, Loop, ModelStep, list_holding, plain_steps
from longhand.schedule.plan import Allocate, Launch, Release, Reuse, buffers_made, buffers_read

_SOON = 2  # statements: what these bind anew is not dropped before


def gathered_lists(
    buffers: Iterable[str], steps: Iterable[ModelStep], variables: Mapping[str, str]
) -> list[str]:
    """The lists that loops gather of which every tensor is among the buffers."""
    dropped = set(buffers)
    return [
        list_holding(variables[loop.repeat.outputs[0][place]])
        for loop in steps
        if isinstance(loop, Loop)
        for place in loop.gathered
        if dropped.issuperset(run[place] for run in loop.repeat.outputs)
    ]


def root(expression: str) -> str:
    """The variable that an expression starts from."""
    return expression.partition(".")[0].partition("[")[0]


def allocates(steps: Sequence[ModelStep]) -> bool:
    """Whether any of the steps makes a tensor in the function itself."""
    return any(
        isinstance(one, Allocate)
        for step in steps
        if not isinstance(step, Loop | FirstCall | LayerCall)
        for one in plain_steps(step)
    )


def rebound_or_alive(
    variables: Mapping[str, str], names: Iterable[str], steps: Sequence[ModelStep], place: int
) -> set[str]:
    """Names that the very next statements bind anew, or that stand for another buffer that is still read."""
    later_read: set[str] = set()
    first_bound: dict[str, int] = {}
    for number_, step in enumerate(steps[place + 1 :]):
        for plain in plain_steps(step):
            for buffer in buffers_read(plain):
                variable = variables.get(buffer, "")
                if variable not in first_bound:
                    later_read.add(variable)
            for buffer in buffers_made(plain):
                first_bound.setdefault(variables.get(buffer, ""), number_)
    bound_soon = {word for word, place in first_bound.items() if place <= _SOON}
    return {name for name in names if name in later_read or name in bound_soon}


def quoted_step(
    steps: Sequence[ModelStep], calls: Container[int], buffers: Mapping[str, Buffer]
) -> Launch | Extern | None:
    """The step whose statement stands above the first one: of a copy into another layout what it is made for.

    Args:
        steps: From a launch or a library call on.
        calls: Steps that functions stand for, by identity.
        buffers: The plan's.

    Returns:
        None where what reads the copy has no statement of its own above it: a loop, or a call of a function.
    """
    for step in steps:
        if id(step) in calls or not isinstance(step, Launch | Extern | Allocate | Reuse | Release):
            return None
        if isinstance(step, Launch) or (isinstance(step, Extern) and not _is_layout_copy(step, buffers)):
            return step
    return None


def _is_layout_copy(step: Extern, buffers: Mapping[str, Buffer]) -> bool:
    """Whether a call is lowering's own, for a layout that somebody asks for: ``out = out.contiguous()``."""
    made = buffers[step.outputs[0]].derived if len(step.outputs) == 1 and step.outputs[0] else None
    return step.target is torch.ops.aten.contiguous.default and made is not None and made.how.is_layout
