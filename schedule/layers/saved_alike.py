"""What the layers of a loop save alike: each at the same place among what it makes, is given and has as a weight.

A layer behind a norm reads normalized values, while its derivative computes them again from what was normalized: the
layer before made that, and of the first one what stands before all layers. Each is given it, to save it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence

from longhand.capture.graph import CapturedGraph
from longhand.schedule.layers.model_steps import Loop
from longhand.schedule.plan import UnitPlan, buffers_made, flat_steps

Saved = Mapping[int, Sequence[str]]  # by the layer's position: the forward's buffer for each field


def made_alike(twin: Loop, sources: Saved) -> list[int | None]:
    """For each field: a number for what all of the loop's layers have at the same place; None if they do not.

    Args:
        twin: The loop of the forward pass.
        sources: What layers save; not of all of them, where the backward pass writes some out.
    """
    order, pattern = _order_of_making(twin), _at_hand(twin)[twin.pattern]
    return [None if place is None else order.get(pattern[place], 0) for place in _places(twin, sources)]


def of_other_layers(
    twin: Loop, graph: CapturedGraph, sources: Saved, held: Sequence[bool]
) -> dict[int, tuple[str, ...]] | None:
    """What the loop's other layers have where these layers have what they save; None if some have it elsewhere.

    Args:
        twin: The loop of the forward pass.
        graph: The forward pass's.
        sources: What layers save, each field of all of them at the same place, or the same weight of each.
        held: Whether a field is such a weight.
    """
    path_of, node_of = _paths(graph), {path: node for node, path in _paths(graph).items()}
    places, at_hand = _places(twin, sources), _at_hand(twin)
    known = next(position for position in twin.positions if position in sources)
    others: dict[int, tuple[str, ...]] = {}
    for run, position in enumerate(twin.positions):
        if position in sources:
            continue
        fields: list[str] = []
        for name, place, is_held in zip(sources[known], places, held, strict=True):
            if is_held:
                below = path_of[name].removeprefix(f"{twin.owner}.{known}.")
                fields.append(node_of.get(f"{twin.owner}.{position}.{below}", ""))
            else:
                fields.append("" if place is None else at_hand[run][place])
        if "" in fields:
            return None
        others[position] = tuple(fields)
    return others


def held_alike(loop: Loop, graph: CapturedGraph, sources: Saved) -> list[bool]:
    """For each field: whether it is the same weight of every layer.

    Args:
        loop: Of the backward pass.
        graph: The forward pass's.
        sources: What its layers read.
    """
    path_of = _paths(graph)
    are_held = []
    for fields in zip(*(sources[position] for position in loop.positions), strict=True):
        heads = [f"{loop.owner}.{position}." for position in loop.positions]
        paths = [path_of.get(name, "") for name in fields]
        below = {
            path[len(head) :] if path.startswith(head) else ""
            for path, head in zip(paths, heads, strict=True)
        }
        are_held.append(len(below) == 1 and "" not in below)
    return are_held


def given_what_they_save(twin: Loop, sources: Saved, before: Collection[str] | None = None) -> Loop:
    """The loop whose layers are given what each saves of what the layer before it hands on, read or not.

    Args:
        twin: The loop of the forward pass.
        sources: What its layers save.
        before: What is there before the loop; None: all that its first layer saves and none of them makes is.
    """
    if twin.is_in_turn or twin.is_apart or not set(twin.positions) <= sources.keys():
        return twin
    repeat = twin.repeat
    made = {name for run in repeat.runs for step in run for name in buffers_made(step)}
    columns: dict[tuple[str, ...], int] = {}
    for field, place in enumerate(_places(twin, sources)):
        first, *rest = (sources[position][field] for position in twin.positions)
        found = {
            outputs.index(name) if name in outputs else None
            for outputs, name in zip(repeat.outputs, rest, strict=False)
        }
        is_there = first not in made and (before is None or first in before)
        if place is None and len(found) == 1 and (source := found.pop()) is not None and is_there:
            columns[first, *rest] = source
    inputs = tuple(
        (*one, *more) for one, more in zip(repeat.inputs, zip(*columns, strict=True), strict=False)
    )
    if not columns:
        return twin
    return dataclasses.replace(
        twin,
        repeat=dataclasses.replace(repeat, inputs=inputs),
        carried=(*twin.carried, *columns.values()),
    )


def there_before(twin: Loop, plan: UnitPlan) -> set[str]:
    """What is there before the layers of a loop run.

    Args:
        twin: The loop.
        plan: Of the forward pass.
    """
    begin = twin.repeat.runs[0][0]
    earlier = itertools.takewhile(lambda step: step is not begin, flat_steps(plan.steps))
    return {entry.node for entry in plan.program.graph.inputs}.union(*map(buffers_made, earlier))


def _places(twin: Loop, sources: Saved) -> list[int | None]:
    """For each field: where all layers have it among what is at hand; None if they do not."""
    runs = [
        (run, sources[position])
        for run, position in zip(_at_hand(twin), twin.positions, strict=True)
        if position in sources
    ]
    places: list[int | None] = []
    for field in range(len(runs[0][1])):
        found = {run.index(names[field]) if names[field] in run else None for run, names in runs}
        places.append(found.pop() if len(found) == 1 else None)
    return places


def _at_hand(twin: Loop) -> list[list[str]]:
    """What each layer hands on, is given, and has of the weights of the layer before."""
    repeat = twin.repeat
    before = repeat.previous or ((),) * len(repeat.runs)
    return [
        [*outputs, *inputs, *given]
        for outputs, inputs, given in zip(repeat.outputs, repeat.inputs, before, strict=True)
    ]


def _order_of_making(twin: Loop) -> dict[str, int]:
    made = (name for step in twin.run for name in buffers_made(step))
    return {name: number for number, name in enumerate(dict.fromkeys((*twin.inputs, *made)))}


def _paths(graph: CapturedGraph) -> dict[str, str]:
    """The paths of weights, by node."""
    return {entry.node: entry.target for entry in graph.inputs if not entry.is_given}
