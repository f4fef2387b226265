"""What the runs of a repeat take: from the run before, and of the block that each one is."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from longhand.capture.graph import CapturedGraph
from longhand.lower.ir import View
from longhand.schedule.layers.divergent_layers import without_first
from longhand.schedule.layers.listed_inputs import listed_inputs
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.words import identifier
from longhand.schedule.plan import Repeat, UnitPlan, UnitStep, buffers_read

NO_CLASS = "Layer"  # of a module of which no node tells the class


def distinct_inputs(repeat: Repeat, n_first: int) -> Repeat:
    """The repeat without its first runs, each input once."""
    last = repeat.inputs[-1]
    places = [place for place, name in enumerate(last) if last.index(name) == place]
    rest = without_first(repeat, n_first)
    return dataclasses.replace(
        rest, inputs=tuple(tuple(run[place] for place in places) for run in rest.inputs)
    )


def joined(repeats: Sequence[Repeat]) -> Repeat:
    """The runs of several repeats as those of one."""

    def all_of(columns: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
        return tuple(entry for column in columns for entry in column)

    return Repeat(
        all_of(one.runs for one in repeats),
        all_of(one.paths for one in repeats),
        all_of(one.inputs for one in repeats),
        all_of(one.outputs for one in repeats),
        all_of(one.own for one in repeats),
        all_of(one.previous for one in repeats),
        following=all_of(one.following for one in repeats),
    )


def carried_places(repeat: Repeat) -> tuple[int, ...] | None:
    """For each input its place among the previous run's outputs; None if that differs from run to run."""
    places: list[int] = []
    for place in range(len(repeat.inputs[0])):
        sources = {
            before.index(run[place]) if run[place] in before else None
            for before, run in zip(repeat.outputs, repeat.inputs[1:], strict=False)
        }
        if len(sources) != 1 or None in sources:
            return None
        places.append(next(source for source in sources if source is not None))
    return tuple(places)


def hold_modules(weights: Mapping[str, str]) -> bool:
    """Whether layers hold modules: one that does not is a norm, say, which functions share that are called for any.

    Args:
        weights: By buffer: the path below the layer.
    """
    return any("." in path for path in weights.values())


def own_weights(
    graph: CapturedGraph,
    paths: Sequence[str],
    reads: Sequence[Iterable[str]],
    pattern: int,
    odd: Container[int],
) -> dict[str, str] | None:
    """What is each run's own below its path, by the pattern's buffers: weights, and entries of lists that it is given.

    None if the runs' do not correspond.

    Odd runs read no weights that the pattern has not: see schedule/layers/divergent_runs.py.
    """
    targets = {entry.node: entry.target for entry in graph.inputs if not entry.is_given} | {
        name: one.path for name, one in listed_inputs(graph).items()
    }
    read = [{name: targets[name] for name in names if name in targets} for names in reads]
    below = [
        {name: target[len(path) + 1 :] for name, target in weights.items() if target.startswith(f"{path}.")}
        for path, weights in zip(paths, read, strict=True)
    ]
    reference = sorted(below[pattern].values())
    even = [run for run in range(len(paths)) if run not in odd]
    if any(sorted(below[run].values()) != reference for run in even):
        return None
    # Weights elsewhere must be the same in all runs.
    elsewhere = [weights.keys() - inside.keys() for weights, inside in zip(read, below, strict=True)]
    return below[pattern] if all(elsewhere[run] == elsewhere[pattern] for run in even) else None


def previous_weights(graph: CapturedGraph, repeat: Repeat, pattern: int) -> dict[str, str] | None:
    """By buffer: the path of each weight of the module before the pattern's own, below that module.

    None if some run's are not those of the module one place before its own.
    """
    targets = {entry.node: entry.target for entry in graph.inputs}
    below: list[list[str]] = []
    for path, names in zip(repeat.paths, repeat.previous, strict=False):
        owner, _, position = path.rpartition(".")
        head = f"{owner}.{int(position) - 1}." if position.isdigit() else ""
        if not all(head and targets[name].startswith(head) for name in names):
            return None
        below.append([targets[name][len(head) :] for name in names])
    if any(paths != below[0] for paths in below):
        return None
    return dict(zip(repeat.previous[pattern], below[pattern], strict=True)) if below else {}


def class_of(graph: CapturedGraph, path: str, words: BufferNamer) -> str:
    """The class of the module at `path`, from a node that stands in it; ``Layer`` where none tells."""
    inside = ""
    for node in graph.graph.nodes:
        origin = words.provenance(node.name)
        if origin.module == path and origin.module_class:
            return identifier(origin.module_class)
        inside = inside or dict(origin.around).get(path, "")
    return identifier(inside) if inside else NO_CLASS


def gradients_last(plan: UnitPlan, repeat: Repeat) -> Repeat:
    """The runs of a backward pass hand on first what others take, then gradients in the order of the weights."""
    if not plan.program.graph.paths:
        return repeat
    order = {view.buffer: place for place, view in enumerate(plan.results) if isinstance(view, View)}

    def rank(place: int) -> tuple[int, ...]:
        returned = [order.get(run[place], -1) for run in repeat.outputs]
        return (0, place) if -1 in returned else (1, *returned)

    places = sorted(range(len(repeat.outputs[0])), key=rank)
    outputs = tuple(tuple(run[place] for place in places) for run in repeat.outputs)
    return dataclasses.replace(repeat, outputs=outputs)


def in_lists(
    plan: UnitPlan, repeat: Repeat, later: Sequence[UnitStep], carried: tuple[int, ...], is_in_turn: bool
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """What of all runs is read after them: `Loop.collected` and `Loop.gathered`; None if a backward pass mixes both."""
    is_backward = bool(plan.program.graph.paths)
    results = {view.buffer for view in plan.results if hasattr(view, "buffer")}
    read_later = results | {name for step in later for name in buffers_read(step)}
    collected = tuple(
        place
        for place in range(len(repeat.outputs[0]))
        if any(run[place] in read_later for run in repeat.outputs[:-1])
        or (is_backward and place not in carried and repeat.outputs[-1][place] in results)
    )
    if is_in_turn and not is_backward:
        collected = ()
    gathered: tuple[int, ...] = ()
    if is_backward:
        order = [getattr(result, "buffer", "") for result in plan.results]
        gathered = tuple(place for place in collected if repeat.outputs[0][place] not in order)
        collected = tuple(place for place in collected if place not in gathered)
        gathered = () if is_in_turn else gathered
        returned = {name for place in collected for name in (run[place] for run in repeat.outputs)}
        parts = {name for place in gathered for name in (run[place] for run in repeat.outputs)}
        # Beside gradients that are returned, layers may hand on parts of one: each kind from all of them.
        if {*collected, *gathered} & set(carried) or not returned <= set(order) or parts & set(order):
            return None
        collected = tuple(sorted(collected, key=lambda place: order.index(repeat.outputs[0][place])))
    return collected, gathered


def gradients_apart(
    plan: UnitPlan, repeat: Repeat, steps: Sequence[UnitStep], weights: Mapping[str, str]
) -> tuple[int, ...]:
    """Of layers that have other steps between them: the outputs that are gradients of each layer's own weights.

    Args:
        plan: Of a backward pass.
        repeat: All layers, one run each.
        steps: Of the plan.
        weights: By buffer: the path of the weight that it holds the gradient of.
    """
    order = [view.buffer if isinstance(view, View) else "" for view in plan.results]
    read: set[str] = set()
    for step in steps:
        read.update(*(step.inputs if isinstance(step, Repeat) else [buffers_read(step)]))
    places = []
    for place in range(len(repeat.outputs[0])):
        made = [run[place] for run in repeat.outputs]
        heads = [f"{path}." for path in repeat.paths]
        own = {weights.get(name, "").removeprefix(head) for name, head in zip(made, heads, strict=True)}
        are_own = all(weights.get(name, "").startswith(head) for name, head in zip(made, heads, strict=True))
        if are_own and len(own) == 1 and not read.intersection(made) and set(made) <= set(order):
            places.append(place)
    return tuple(sorted(places, key=lambda place: order.index(repeat.outputs[0][place])))
