"""Whole steps that need not run: results that nobody reads, and the same work done twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from longhand.lower.ir import (
    Axis,
    Buffer,
    BufferKind,
    Contraction,
    Extern,
    Load,
    Nest,
    Step,
    Store,
    Value,
    View,
)
from longhand.schedule.bodies import split_axes, without_stores
from longhand.schedule.dependencies import effects
from longhand.schedule.simplification import simplify_nest, value_key


def clean_steps(steps: Sequence[Step], buffers: Mapping[str, Buffer], kept: frozenset[str]) -> list[Step]:
    """Cleaned bodies, equal steps once, and nothing that nobody reads. `kept` are buffers that the caller sees."""
    cleaned = [simplify_nest(step) if isinstance(step, Nest) else step for step in steps]
    return drop_unread(share_equal(cleaned, buffers, kept), buffers, kept)


def drop_unread(steps: Sequence[Step], buffers: Mapping[str, Buffer], kept: frozenset[str]) -> list[Step]:
    """The steps, and of nests the stores, whose results somebody reads. Effects on inputs and on random state stay."""
    wanted = set(kept)
    left: list[Step] = []
    for step in reversed(steps):
        if isinstance(step, Nest):
            trimmed = without_stores(step, lambda store: _is_unread(store.buffer, buffers, wanted))
            if not any(isinstance(value, Store) for value in trimmed.body):
                continue
            if len(trimmed.body) != len(step.body):
                step = simplify_nest(trimmed)
        elif _has_only_results(step) and all(_is_unread(n, buffers, wanted) for n in effects(step).writes):
            continue
        wanted.update(effects(step).reads)
        left.append(step)
    return left[::-1]


def share_equal(steps: Sequence[Step], buffers: Mapping[str, Buffer], kept: frozenset[str]) -> list[Step]:
    """Each computation once: a later step that does the same on the same contents is left out, its results renamed."""
    written_once = _once([name for step in steps for name in effects(step).writes])
    versions: dict[str, int] = {}
    renamed: dict[str, str] = {}
    known: dict[object, tuple[str, ...]] = {}
    left: list[Step] = []
    for step in steps:
        step = rename_buffers(step, lambda name: renamed.get(name, name))
        outputs = effects(step).writes
        is_sharable = all(
            name in written_once and buffers[name].kind is BufferKind.INTERMEDIATE for name in outputs
        )
        if is_sharable and (isinstance(step, Nest) or _has_only_results(step)):
            key = _step_key(step, buffers, versions, outputs)
            twin = known.setdefault(key, outputs)
            if twin is not outputs and kept.isdisjoint(outputs):
                renamed.update(zip(outputs, twin, strict=True))
                continue
        for name in outputs:
            versions[name] = versions.get(name, 0) + 1
        left.append(step)
    return left


def rename_in_nest(nest: Nest, name_of: Callable[[str], str]) -> Nest:
    """The nest on other buffers."""
    return Nest(nest.axes, _rename_in_body(nest.body, name_of))


def _rename_in_body(body: tuple[Value, ...], name_of: Callable[[str], str]) -> tuple[Value, ...]:
    return tuple(
        dataclasses.replace(value, buffer=name_of(value.buffer)) if isinstance(value, Load | Store) else value
        for value in body
    )


def rename_buffers(step: Step, name_of: Callable[[str], str]) -> Step:
    """The step on other buffers."""
    match step:
        case Nest():
            return rename_in_nest(step, name_of)
        case Extern():
            return _rename_in_call(step, name_of)
        case Contraction():
            return dataclasses.replace(
                step,
                body=_rename_in_body(step.body, name_of),
                call=_rename_in_call(step.call, name_of),
                before=tuple(rename_in_nest(nest, name_of) for nest in step.before),
                after=tuple(rename_in_nest(nest, name_of) for nest in step.after),
            )


def _rename_in_call(step: Extern, name_of: Callable[[str], str]) -> Extern:
    return dataclasses.replace(
        step,
        args=_rename_views(step.args, name_of),
        kwargs=_rename_views(step.kwargs, name_of),
        outputs=tuple(name_of(name) if name else name for name in step.outputs),
        mutates=tuple(name_of(name) for name in step.mutates),
        measured=tuple(name_of(name) for name in step.measured),
    )


def _once(names: Sequence[str]) -> set[str]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return {name for name, count in counts.items() if count == 1}


def _is_unread(name: str, buffers: Mapping[str, Buffer], wanted: set[str]) -> bool:
    return name not in wanted and buffers[name].kind is BufferKind.INTERMEDIATE


def _has_only_results(step: Extern | Contraction) -> bool:
    """Whether a step does nothing but make its results: no writes, no random numbers, nothing its schema hides.

    What makes no result is called for what it does: ``_linalg_check_errors`` raises.
    """
    if isinstance(step, Contraction):
        return True
    is_random = torch.Tag.nondeterministic_seeded in step.target.tags
    return bool(step.outputs) and not step.mutates and not is_random and step.target.namespace == "aten"


def _step_key(
    step: Step, buffers: Mapping[str, Buffer], versions: Mapping[str, int], outputs: Sequence[str]
) -> object:
    """What tells steps apart that compute different things: contents by name and version, results by number."""
    number = {name: place for place, name in enumerate(outputs)}

    def content(name: str) -> str:
        return f"result {number[name]}" if name in number else f"{name} {versions.get(name, 0)}"

    plain = rename_buffers(step, content)
    made = tuple((buffers[n].dtype, buffers[n].shape, buffers[n].stride) for n in outputs)
    if not isinstance(plain, Extern):
        loops = (plain.axes, tuple(value_key(value) for value in plain.body), made)
        return loops if isinstance(plain, Nest) else (*loops, _call_key(plain.call))
    return (*_call_key(plain), made)


def _call_key(plain: Extern) -> tuple[object, ...]:
    return (plain.target, repr(plain.args), repr(plain.kwargs), plain.outputs, plain.memory_format)


def _rename_views(argument: Any, name_of: Callable[[str], str]) -> Any:
    if isinstance(argument, View):
        return dataclasses.replace(argument, buffer=name_of(argument.buffer))
    if isinstance(argument, tuple):
        return tuple(_rename_views(part, name_of) for part in argument)
    return argument


def without_names(nest: Nest, buffers: Mapping[str, Buffer]) -> tuple[Nest, tuple[object, ...]]:
    """The nest with numbers for names of axes and buffers, and what these buffers are, in order of first use."""
    names = buffers_of(nest)
    number = {name: f"{place}" for place, name in enumerate(names)}
    plain = rename_in_nest(nest, number.__getitem__)
    plain = split_axes(plain, {axis.name: (Axis(f"{i}", axis.size),) for i, axis in enumerate(nest.axes)})
    return plain, tuple((buffers[name].dtype, buffers[name].shape, buffers[name].stride) for name in names)


def buffers_of(nest: Nest) -> tuple[str, ...]:
    """The buffers of a nest in order of first use."""
    return tuple(dict.fromkeys(value.buffer for value in nest.body if isinstance(value, Load | Store)))
