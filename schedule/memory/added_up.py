"""Products that are added to a total where the total lies: ``d_weight.addmm_(d_gates.T, state)``.

All totals of one sum are one buffer, by the name of the last: there is one value in it at a time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from longhand.lower.ir import Buffer, BufferKind, Extern, View
from longhand.schedule.memory.lifetimes import Lifetimes, find_lifetimes
from longhand.schedule.plan import Launch, touched

aten = torch.ops.aten


def add_in_place(
    steps: Sequence[Launch | Extern], buffers: Mapping[str, Buffer], kept: frozenset[str]
) -> list[Launch | Extern]:
    """The steps, each product that is added to a total which nothing else reads added in place.

    Args:
        steps: Of the whole unit, in their order.
        buffers: All of them.
        kept: What the caller sees as it is then.
    """
    lifetimes = find_lifetimes(steps)
    makers: dict[str, int] = {}
    for number, step in enumerate(steps):
        for name in touched(step):
            makers.setdefault(name, number)
    new = list(steps)
    later: dict[str, str] = {}  # a total -> the next one of its sum
    for number, step in enumerate(steps):
        total = _total(step, number, buffers, kept, lifetimes)
        maker = steps[makers[total]] if total else None
        if isinstance(step, Extern) and isinstance(maker, Extern) and maker.target in _MADE_BY:
            later[total] = step.outputs[0]
            new[number] = dataclasses.replace(
                step, target=aten.addmm_.default, outputs=(), mutates=step.outputs
            )
    last = {name: _end(name, later) for name in later}
    return [_renamed(step, last) if isinstance(step, Extern) else step for step in new]


_MADE_BY = (aten.mm.default, aten.addmm.default)


def _total(
    step: Launch | Extern,
    number: int,
    buffers: Mapping[str, Buffer],
    kept: frozenset[str],
    lifetimes: Lifetimes,
) -> str:
    """The buffer of the total that a call may add its product to; empty if there is none.

    Nothing but what makes it and this call touches it.
    """
    if not isinstance(step, Extern) or step.target is not aten.addmm.default or step.kwargs:
        return ""
    if not isinstance(step.args[0], View):
        return ""
    name, result = step.args[0].buffer, buffers[step.outputs[0]]
    total = buffers[name]
    is_whole = not step.args[0].calls and step.args[0].shape == total.shape == result.shape
    is_alike = step.args[0].stride == total.stride == result.stride and total.dtype == result.dtype
    is_free = (
        total.kind is BufferKind.INTERMEDIATE
        and name not in kept | lifetimes.shared
        and lifetimes.last_use[name] == number
        and sum(view.buffer == name for view in step.views()) == 1
    )
    return name if is_whole and is_alike and is_free and total.layout_is_known else ""


def _end(name: str, later: Mapping[str, str]) -> str:
    while name in later:
        name = later[name]
    return name


def _renamed(step: Extern, names: Mapping[str, str]) -> Extern:
    """The call with other buffers."""

    def renamed(value: Any) -> Any:
        if isinstance(value, View):
            return dataclasses.replace(value, buffer=names.get(value.buffer, value.buffer))
        return tuple(map(renamed, value)) if isinstance(value, tuple) else value

    return dataclasses.replace(
        step,
        args=renamed(step.args),
        outputs=tuple(names.get(name, name) for name in step.outputs),
        mutates=tuple(names.get(name, name) for name in step.mutates),
    )
