"""Nests that do the same, their results in one order: one kernel, whatever a layer asked for first.

The gradients of a norm are its input's, its weight's and its bias's. In which order fusion comes by them depends on
what else reads them, so that the blocks of a model have them in several: each a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import torch

from longhand.lower.ir import (
    AxisSize,
    Constant,
    IndexExpression,
    Load,
    Nest,
    Pointwise,
    Reduce,
    Scalar,
    Step,
    Store,
    Value,
    arguments,
)
from longhand.schedule.fusion.result_order import with_stores_in_order

_Told: TypeAlias = tuple[object, ...]  # what a value is, up to names, sizes and plain numbers


def alike_in_one_order(steps: Sequence[Step]) -> list[Step]:
    """The steps, nests that store the same results in that order in which the first of them does."""
    alike: dict[object, list[int]] = {}
    told: dict[int, dict[int, int]] = {}
    known: dict[_Told, int] = {}
    for place, step in enumerate(steps):
        if isinstance(step, Nest) and _may_be_ordered(step):
            told[place] = stored = _stored(step, known)
            alike.setdefault((len(step.axes), len(step.body), *sorted(stored.values())), []).append(place)
    made = list(steps)
    for places in alike.values():
        orders = {tuple(told[place].values()) for place in places}
        first = list(told[places[0]].values())
        for place in places if len(orders) > 1 else ():
            step = steps[place]
            assert isinstance(step, Nest)
            made[place] = with_stores_in_order(step, _as_in(first, told[place]))
    return made


def _may_be_ordered(nest: Nest) -> bool:
    """Whether several stores end a nest, each of a place of its own."""
    stores = [position for position, value in enumerate(nest.body) if isinstance(value, Store)]
    is_end = stores == list(range(len(nest.body) - len(stores), len(nest.body)))
    written = [nest.body[position] for position in stores]
    buffers = {one.buffer for one in written if isinstance(one, Store)}
    return is_end and len(stores) > 1 and len(buffers) == len(stores)


def _as_in(order: Sequence[int], stored: Mapping[int, int]) -> list[int]:
    """The positions of stores in the order in which another nest has what they store."""
    left = list(stored.items())
    positions: list[int] = []
    for told in order:
        entry = next(one for one in left if one[1] == told)
        left.remove(entry)
        positions.append(entry[0])
    return positions


def _stored(nest: Nest, known: dict[_Told, int]) -> dict[int, int]:
    """What each store of a nest stores, as a number that is the same wherever the same is stored."""
    axes = {axis.name: place for place, axis in enumerate(nest.axes)}
    numbers: list[int] = []
    for value in nest.body:
        said = (*_said(value, axes), *(numbers[argument] for argument in arguments(value)))
        numbers.append(known.setdefault(said, len(known)))
    return {
        position: numbers[position] for position, value in enumerate(nest.body) if isinstance(value, Store)
    }


def _said(value: Value, axes: Mapping[str, int]) -> _Told:
    """What a value is besides its arguments."""
    kind = type(value).__name__
    match value:
        case Load() | Store() | IndexExpression():
            walked = tuple(sorted(axes[axis] for axis, _ in value.index.axes))
            dtype = None if isinstance(value, Store) else value.dtype
            return (
                kind,
                dtype,
                walked,
                isinstance(value, Store) and value.adds,
                getattr(value, "mask", None) is None,
            )
        case Constant() | Scalar():
            is_plain = value.dtype is torch.float32
            return "number", value.dtype, None if is_plain else repr(value.value)
        case AxisSize():
            return kind, value.dtype, tuple(sorted(axes[axis] for axis in value.axes))
        case Reduce():
            return kind, value.op, value.dtype, tuple(sorted(axes[axis] for axis in value.axes))
        case Pointwise():
            return kind, value.op, value.dtype, str(value.narrow)
    return (kind,)
