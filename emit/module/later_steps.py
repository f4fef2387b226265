"""What the steps around a statement do with names: which memory is made, dropped, or bound anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from longhand.schedule.named_plan import (
    FirstCall,
    LayerCall,
    Loop,
    ModelStep,
    is_plain_variable,
    list_holding,
    plain_steps,
)
from longhand.schedule.plan import Allocate, buffers_made, buffers_read

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


def dropped_alone(variables: Iterable[str | None], *, is_of_layers: bool) -> list[str]:
    """Those that ``del`` drops alone: words, and fields of what a call saves, which a layer's are not."""
    return [
        one
        for one in variables
        if one and (one.isidentifier() or (not is_of_layers and is_plain_variable(one)))
    ]


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
