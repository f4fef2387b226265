"""Loops of a forward pass that its backward pass has not: two blocks, whose ends are fused with what is around them.

The layers of a loop that both passes have save records. Where only the forward pass has it, and its layers save much,
the loop gathers a list of each tensor: there the calls stand one after the other, and may share a function with the
blocks of other lists, which makes a record for each of them. So do the calls of layers that stand apart, if the record
holds the lesser part of what they save: the others would be returned one by one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from longhand.schedule.functions.sites import FORWARD_FORM
from longhand.schedule.layers.model_steps import Loop, ModelStep, loops_of
from longhand.schedule.plan import Repeat, UnitPlan, UnitStep, flat_steps

_MOST_RUNS = 3
_MOST_BESIDE = 8  # tensors that a layer returns beside its record


def without_lone_loops(plan: UnitPlan, steps: Sequence[ModelStep], backward: Sequence[ModelStep]) -> UnitPlan:
    """The plan of a forward pass with the runs of such loops one after the other; the same one if it has none.

    Args:
        plan: It.
        steps: Of its function.
        backward: Of the backward pass's function.
    """
    there = loops_of(backward)
    lone = {id(loop.run[0]) for loop in loops_of(steps) if _is_short(loop) and not _is_in_any(loop, there)}
    flat: list[UnitStep] = []
    for step in plan.steps:
        is_lone = isinstance(step, Repeat) and bool(step.runs[0]) and id(step.runs[0][0]) in lone
        flat += flat_steps([step]) if is_lone else [step]
    return dataclasses.replace(plan, steps=tuple(flat)) if lone else plan


def without_scattered_layers(plan: UnitPlan, steps: Sequence[ModelStep]) -> UnitPlan:
    """The plan of a forward pass without functions of layers that return very much beside their records.

    Args:
        plan: It.
        steps: Of its function, with records of layers.
    """
    scattered = {
        id(run[0])
        for loop in loops_of(steps)
        if len(loop.outputs) > _MOST_BESIDE
        for run in loop.repeat.runs
        if run
    }
    flat: list[UnitStep] = []
    for step in plan.steps:
        is_one = isinstance(step, Repeat) and step.family is not None and id(step.runs[0][0]) in scattered
        flat += flat_steps([step]) if is_one else [step]
    return dataclasses.replace(plan, steps=tuple(flat)) if len(flat) > len(plan.steps) else plan


def _is_short(loop: Loop) -> bool:
    """Whether a few layers each hand on more than a function returns one by one."""
    repeat = loop.repeat
    is_plain = not (repeat.kinds or repeat.numbers or any(repeat.previous) or any(repeat.following))
    is_plain = (
        is_plain and repeat.family is None and not loop.listed and not hasattr(torch.nn, loop.class_name)
    )
    return is_plain and len(repeat.runs) <= _MOST_RUNS and len(repeat.outputs[0]) > FORWARD_FORM.most_results


def _is_in_any(loop: Loop, others: Sequence[Loop]) -> bool:
    return any(one.owner == loop.owner and not {*one.positions}.isdisjoint(loop.positions) for one in others)
