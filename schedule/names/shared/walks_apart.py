"""What a kernel walks along, and how, where that tells it from another one of the same math."""

from __future__ import annotations

import re
from collections.abc import Iterator

from longhand.lower.ir import Load
from longhand.schedule.names.dimensions.axis_names import dimensions_of
from longhand.schedule.names.schedule_names import words_of
from longhand.schedule.names.shared.callers import Callers
from longhand.schedule.names.shared.telling_apart import n_stores, passed, walked
from longhand.schedule.plan import KernelPlan

_ANY_AXES = frozenset({"rows", "cols", "elements"})  # of any kernel
_COUNTED = re.compile(r"n_(\w+s)")  # n_heads


def axes_apart(plan: KernelPlan, callers: Callers, other: KernelPlan, others: Callers) -> Iterator[str]:
    """``of_heads``: what a kernel walks along, and the one that has the plain name does not.

    Args:
        plan: The kernel.
        callers: Its calls.
        other: The one with the plain name.
        others: The calls of that.
    """
    mine, theirs = (
        [word for words in dimensions_of(one, calls).values() for word in words[:1]]
        for one, calls in ((plan, callers), (other, others))
    )
    for word in mine:
        counted = _COUNTED.fullmatch(word)
        if counted and word not in theirs and counted[1] not in _ANY_AXES:
            yield f"of_{counted[1].rpartition('_')[2]}"


def biases_apart(plan: KernelPlan, callers: Callers, other: KernelPlan) -> Iterator[str]:
    """``of_bias``: a kernel that reads the bias of a layer where the one that has the plain name reads all of a tensor.

    Args:
        plan: The kernel.
        callers: Its calls.
        other: The one with the plain name.
    """
    broadcast = [*_broadcast_here(plan, other)]
    if broadcast and _are_biases(plan, callers, broadcast):
        yield "of_bias"


def shapes_apart(plan: KernelPlan, other: KernelPlan) -> Iterator[str]:
    """How a kernel walks otherwise than the one that has the plain name: the last that tells their code apart."""
    if any(_broadcast_here(plan, other)):
        yield "broadcast"
    if plan.schedule != other.schedule:
        yield words_of(plan).adjective or ("blocks" if plan.rows else "flat")
    if n_stores(plan) > n_stores(other):
        yield "keep_more"
    if len(plan.pointers) < len(other.pointers):
        yield "short"
    if len(plan.rows) != len(other.rows) or len(plan.cols) != len(other.cols):
        yield {0: "flat", 1: "rows", 2: "batched"}.get(len(plan.rows), "nested")


def _broadcast_here(plan: KernelPlan, other: KernelPlan) -> Iterator[str]:
    """The pointers to what lies along fewer axes here than in another kernel, and is read again along the others."""
    loads = [value.buffer for value in plan.body if isinstance(value, Load)]
    mine, theirs = ([len(one.axes) - len(steps) for steps in walked(one, Load)] for one in (plan, other))
    if len(mine) == len(theirs) == len(loads):
        yield from (name for name, here, there in zip(loads, mine, theirs, strict=True) if here > there)


def _are_biases(plan: KernelPlan, callers: Callers, pointers: list[str]) -> bool:
    """Whether all that some pointers are given is biases of the user's layers."""
    places = [place for place, pointer in enumerate(passed(plan)) if pointer.name in pointers]
    given = [one.words.inputs.get(one.launch.buffers[place]) for one in callers.every for place in places]
    return all(entry is not None and entry.target.rpartition(".")[2] == "bias" for entry in given)
