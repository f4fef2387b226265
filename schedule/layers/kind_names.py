"""What kinds of layers of one list are called where the user has one class for all: after what only they hold.

Of the layers of a ``DecoderLayer`` some hold a ``MLP``, others a ``MoE``: these are ``MoEDecoderLayer`` here.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence

from longhand.capture.graph import CapturedGraph
from longhand.schedule.layers.model_steps import LayerCall, Loop, ModelStep, layers_called, loops_of
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.words import identifier


def with_kinds_told(
    steps: Sequence[ModelStep], graph: CapturedGraph, words: BufferNamer
) -> tuple[ModelStep, ...]:
    """The steps; loops over several kinds of layers of one list have class names of their own, where any can."""
    told: dict[int, Loop] = {}
    for loop in loops_of(steps):
        others = [other for other in loops_of(steps) if _is_other_kind(loop, other)]
        if others:
            mine = _held(loop, graph, words)
            theirs = {name for other in others for name in _held(other, graph, words).values()}
            own = [name for path, name in sorted(mine.items(), key=_depth) if name not in theirs]
            if own:
                name = kind_name(loop.class_name, identifier(own[0]))
                told[id(loop)] = dataclasses.replace(loop, class_name=name)
    return tuple(_told(step, told) for step in steps)


def kind_name(class_name: str, held: str) -> str:
    """``DeepseekV3MoEDecoderLayer`` of ``DeepseekV3DecoderLayer`` and ``DeepseekV3MoE``."""
    pairs = zip(class_name, held, strict=False)
    n_same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    whole = max((at.start() for at in re.finditer(r"[A-Z]|$", class_name) if at.start() <= n_same), default=0)
    if whole == len(class_name) or not re.match(r"[A-Z]|$", held[whole:]):
        whole = 0
    kind = held[whole:]
    return class_name if not kind else f"{class_name[:whole]}{kind}{class_name[whole:]}"


def _is_other_kind(loop: Loop, other: Loop) -> bool:
    """Whether they are other layers of one list that the user has one class for."""
    is_list = loop.owner == other.owner and loop.class_name == other.class_name
    return is_list and layers_called(loop).isdisjoint(layers_called(other))


def _held(loop: Loop, graph: CapturedGraph, words: BufferNamer) -> dict[str, str]:
    """The classes of the modules that a loop's first layer holds, by their paths below it."""
    head = f"{loop.repeat.paths[loop.pattern]}."
    return {
        path.removeprefix(head): name
        for node in graph.graph.nodes
        for path, name in words.provenance(node.name).around
        if path.startswith(head) and name
    }


def _depth(held: tuple[str, str]) -> tuple[int, str]:
    path, _ = held
    return path.count("."), path


def _told(step: ModelStep, told: Mapping[int, Loop]) -> ModelStep:
    if isinstance(step, LayerCall):
        return dataclasses.replace(step, loop=told.get(id(step.loop), step.loop))
    return told.get(id(step), step) if isinstance(step, Loop) else step
