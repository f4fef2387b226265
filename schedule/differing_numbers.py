"""Nests that differ in numbers alone, which become one kernel: the numbers are arguments that each call passes.

Layers often differ in a number (a scale that falls with the depth): written into the kernels it would make as many of
them as there are layers. What is the same number in all of them stays where it is read: the 0.5 of a gelu.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import torch

from longhand.lower.ir import Buffer, Constant, Nest, Scalar, Step
from longhand.schedule.redundant_steps import without_names
from longhand.schedule.simplification import value_key


def pass_differing_numbers(steps: Sequence[Step], buffers: Mapping[str, Buffer]) -> tuple[Step, ...]:
    """The steps, with arguments for the numbers in which nests differ that are otherwise equal."""
    alike: dict[object, list[int]] = {}
    for place, step in enumerate(steps):
        if isinstance(step, Nest) and any(map(_may_be_passed, step.body)):
            alike.setdefault(_key(step, buffers), []).append(place)
    made = list(steps)
    for places in alike.values():
        nests = [step for place in places if isinstance(step := steps[place], Nest)]
        differing = _differing(nests)
        for place, nest in zip(places, nests, strict=True):
            made[place] = _with_arguments(nest, differing)
    return tuple(made)


def _may_be_passed(value: object) -> bool:
    """Whether a number is a plain one that an argument can be in its own type."""
    return isinstance(value, Constant) and value.dtype is torch.float32 and math.isfinite(value.value)


def _key(nest: Nest, buffers: Mapping[str, Buffer]) -> object:
    """The nest up to the names of its axes and buffers, and up to what its numbers are."""
    plain, memory = without_names(nest, buffers)
    body = tuple(
        (
            ("a number", value.dtype)
            if isinstance(value, Constant) and _may_be_passed(value)
            else value_key(value)
        )
        for value in plain.body
    )
    return plain.axes, body, memory


def _differing(nests: Sequence[Nest]) -> frozenset[int]:
    """The positions of numbers that are not the same in all of these nests."""
    return frozenset(
        position
        for position, value in enumerate(nests[0].body)
        if _may_be_passed(value)
        and len({repr(getattr(nest.body[position], "value", None)) for nest in nests}) > 1
    )


def _with_arguments(nest: Nest, positions: frozenset[int]) -> Nest:
    if not positions:
        return nest
    body = tuple(
        (
            Scalar(float(value.value), value.dtype, value.name, value.origin)
            if position in positions and isinstance(value, Constant)
            else value
        )
        for position, value in enumerate(nest.body)
    )
    return dataclasses.replace(nest, body=body)
