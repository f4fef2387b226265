"""Dropping what nothing needs: stores to buffers that are never read, values, axes, steps and buffers without a use."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

from longhand.capture.graph import Literal
from longhand.lower.body import AxisSize, Index, Load, Pointwise, Reduce, Store, Value, arguments, domains
from longhand.lower.ir import Buffer, BufferKind, Contraction, Extern, Nest, Step, View


def prune(
    buffers: Mapping[str, Buffer], steps: list[Step], results: tuple[View | Literal, ...]
) -> tuple[dict[str, Buffer], tuple[Step, ...]]:
    """The buffers and steps that the results and the mutations need."""
    needed = {result.buffer for result in results if isinstance(result, View)}
    kept: list[Step] = []
    for step in reversed(steps):
        pruned = _pruned(step, buffers, needed)
        if pruned is None:
            continue
        kept.append(pruned)
        needed |= reads(pruned)
    kept.reverse()
    used = needed | {name for step in kept for name in writes(step)}
    return {
        name: buffer
        for name, buffer in buffers.items()
        if name in used or buffer.kind is not BufferKind.INTERMEDIATE
    }, tuple(kept)


def _pruned(step: Step, buffers: Mapping[str, Buffer], needed: set[str]) -> Step | None:
    match step:
        case Nest():
            return _prune_nest(step, buffers, needed)
        case Extern():
            return _prune_extern(step, needed)
        case Contraction():
            return step if _prune_extern(step.call, needed) is not None else None


def reads(step: Step) -> set[str]:
    """The buffers that a step reads."""
    if not isinstance(step, Extern):
        return {
            value.buffer
            for value in step.body
            if isinstance(value, Load) or (isinstance(value, Store) and value.adds)
        }
    given = views_in((step.args, tuple(item for _, item in step.kwargs)))
    return {*(view.buffer for view in given), *step.measured}


def writes(step: Step) -> set[str]:
    """The buffers that a step makes or writes into."""
    if not isinstance(step, Extern):
        return {value.buffer for value in step.body if isinstance(value, Store)}
    return {name for name in (*step.outputs, *step.mutates) if name}


def views_in(value: Any) -> list[View]:
    """The views among (nested) arguments of an extern."""
    if isinstance(value, View):
        return [value]
    if isinstance(value, tuple):
        return [view for item in value for view in views_in(item)]
    return []


def _prune_extern(step: Extern, needed: set[str]) -> Extern | None:
    if not step.outputs:  # it makes nothing: it is called for what it does, such as raise
        return step
    if step.mutates or needed & set(step.outputs) or torch.Tag.nondeterministic_seeded in step.target.tags:
        return step
    return None if step.target._schema.name.startswith("aten::") else step


def _prune_nest(step: Nest, buffers: Mapping[str, Buffer], needed: set[str]) -> Nest | None:
    """The nest without stores that nothing reads, or None if nothing is left."""
    live: set[int] = set()
    for position in range(len(step.body) - 1, -1, -1):
        value = step.body[position]
        wanted = False
        if isinstance(value, Store):
            outside = buffers[value.buffer].kind is not BufferKind.INTERMEDIATE
            wanted = outside or value.buffer in needed
        if wanted or position in live:
            live |= {position, *arguments(value)}
    if not live:
        return None
    if len(live) == len(step.body):
        return step
    moved = {old: new for new, old in enumerate(sorted(live))}
    body = tuple(renumber(step.body[old], moved) for old in sorted(live))
    counted = [frozenset(value.axes) for value in body if isinstance(value, AxisSize)]
    if any(isinstance(value, Store) and value.adds for value in body):  # as often as there are iterations
        return Nest(step.axes, body)
    used = frozenset[str]().union(*domains(body), *counted)
    return Nest(tuple(axis for axis in step.axes if axis.name in used), body)


def renumber(value: Value, moved: Mapping[int, int]) -> Value:
    """The value with every position it refers to replaced."""
    if isinstance(value, Load | Store):
        mask = None if value.mask is None else moved[value.mask]
        values = tuple((moved[position], step) for position, step in value.index.values)
        index = Index(value.index.offset, value.index.axes, values)
        if isinstance(value, Store):
            return dataclasses.replace(value, index=index, mask=mask, value=moved[value.value])
        return dataclasses.replace(value, index=index, mask=mask)
    if isinstance(value, Pointwise):
        return dataclasses.replace(value, args=tuple(moved[arg] for arg in value.args))
    if isinstance(value, Reduce):
        return dataclasses.replace(value, arg=moved[value.arg])
    return value
