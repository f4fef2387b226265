"""Loops over the functions of equal layers in backward.py: from the last layer to the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longhand.emit.layers.backward_records import LayersApart
from longhand.emit.layers.carried import begin_carried
from longhand.emit.layers.following_modules import ModuleBefore
from longhand.emit.layers.layer_numbers import LayerNumbers
from longhand.schedule.named_plan import SAVED, LayerNames, Loop, list_holding


def backward_loop(
    loop: Loop,
    name: str,
    handed_on: Sequence[int],
    variables: Mapping[str, str],
    words: LayerNames,
    kept: LayersApart,
    owner: str,
    numbers: LayerNumbers,
    before: ModuleBefore,
) -> list[str]:
    """Its lines.

    Args:
        loop: The layers.
        name: Their function.
        handed_on: Which of its outputs are no gradients of weights.
        variables: Of the function around the loop.
        words: The layers' words.
        kept: What the forward pass keeps for each.
        owner: The list that holds the layers; empty where their weights are not read.
        numbers: What it is given of the numbers that layers differ in.
        before: The module before each that it is given, if any.
    """
    first, last = loop.repeat.inputs[0], loop.repeat.outputs[-1]
    given = [variables[last[source]] for source in loop.carried]
    lines = begin_carried([(variable, variables[first[place]]) for place, variable in enumerate(given)])
    given += [variables[buffer] for buffer in loop.shared]
    lists = {place: list_holding(variables[last[place]]) for place in loop.gathered}
    lines += [f"{name} = []" for name in lists.values()]
    targets = [words.of_one.get(place) or variables[last[place]] for place in handed_on]
    if loop.collected:
        lines.append(f"{words.gradients} = {{}}")
        targets.append(f"{words.gradients}[layer]")
    taken = [kept.taken] if kept.is_kept else []
    module = [f"{owner}[layer]"] if owner else []
    lines += before.made
    call = f"{name}({', '.join([*module, *taken, *before.given, *given, *numbers.words])})"
    n_layers = len(loop.positions)
    is_whole = bool(taken) and sorted(loop.positions) == list(range(n_layers))
    head = f"range(len({SAVED}.{kept.word}))" if is_whole else _backwards(loop.positions)
    if is_whole and loop.positions[0] > loop.positions[-1]:
        head = f"reversed({head})"
    appended = [f"    {name}.append({words.of_one[place]})" for place, name in lists.items()]
    return [*lines, numbers.head("layer", head), f"    {', '.join(targets)} = {call}", *appended]


def _backwards(positions: Sequence[int]) -> str:
    """``reversed(range(12))``"""
    first, last = positions[-1], positions[0]
    if list(positions) == list(range(last, first - 1, -1)):
        return f"reversed(range({last + 1}))" if first == 0 else f"reversed(range({first}, {last + 1}))"
    return f"({', '.join(map(str, positions))})"
