"""Layers of several lists that do the same, up to sizes: those of the later lists have the words of the first.

They may then be one class: schedule/layers/stage_classes.py. What a layer is given comes from other places in another
stage, and would be called otherwise: that is no difference of what it does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from longhand.schedule.functions.alike_releases import own_steps
from longhand.schedule.functions.alike_steps import AlikeSteps, SiteSteps, alike_steps
from longhand.schedule.layers.model_steps import Loop, LoopKey, ModelStep, loops_of
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.unit_names import LayerNames


def with_words_of_first(
    layers: Mapping[LoopKey, LayerNames], steps: Sequence[ModelStep], words: BufferNamer
) -> dict[LoopKey, LayerNames]:
    """The words of layers, those of later lists as in the first one that does the same.

    Args:
        layers: The words of each loop's layers.
        steps: Those that the loops stand in.
        words: The captured graph's.
    """
    names = dict(layers)
    firsts: list[Loop] = []
    for loop in loops_of(steps):
        if not _is_plain(loop):
            continue
        for first in firsts:
            named = names[first.key]
            alike = _alike(first, loop, words, named)
            if alike is not None:
                names[loop.key] = _as_in(named, names[loop.key], alike)
                break
        else:
            firsts.append(loop)
    return names


def _is_plain(loop: Loop) -> bool:
    """Whether the layers are one function of all their steps."""
    is_cut = loop.n_head or loop.tail is not None or loop.first is not None
    is_other = (
        loop.own or loop.alternatives or loop.previous or loop.listed or loop.is_in_turn or loop.is_apart
    )
    return not (is_cut or is_other)


def _alike(first: Loop, loop: Loop, words: BufferNamer, named: LayerNames) -> AlikeSteps | None:
    """What the layers of two lists do alike; None if they do not."""
    if first.class_name != loop.class_name or first.carried != loop.carried:
        return None
    if _kept(first) != _kept(loop):
        return None
    alike = alike_steps([_steps(first), _steps(loop)], words, named.variables)
    return None if alike is None or any(site.aliases for site in alike.sites) else alike


def _kept(loop: Loop) -> tuple[str, ...]:
    """The fields of what a layer keeps for its backward pass."""
    return loop.record.fields if loop.record is not None else ()


def _steps(loop: Loop) -> SiteSteps:
    return SiteSteps(
        own_steps(loop.run, {})[0], {}, (*loop.inputs, *loop.shared), loop.own_weights, loop.outputs
    )


def _as_in(first: LayerNames, own: LayerNames, alike: AlikeSteps) -> LayerNames:
    """The words of layers, called as the first list's call the same."""
    pairs = {column[1]: column[0] for column in (*alike.inputs, *alike.made, *alike.views)}
    if own.variables.keys() != pairs.keys() or not first.variables.keys() >= {*pairs.values()}:
        return own  # a word that stays could be one that another buffer has now
    variables = {name: first.variables[there] for name, there in pairs.items()}
    return dataclasses.replace(own, variables=variables, twins=alike.sites[1].twins)
