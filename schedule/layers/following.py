"""Layers that end in the first module of the next one, or of what stands behind all of them.

A layer that adds up what it leaves and normalizes it for the next one, in one kernel, is given that one's norm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longhand.capture.graph import CapturedGraph
from longhand.schedule.layers.model_steps import Following
from longhand.schedule.layers.outside import Outside
from longhand.schedule.plan import Repeat


def are_of_next_ones(columns: Sequence[Sequence[str]], paths: Sequence[str], outside: Outside) -> bool:
    """Whether weights are, in each run, of the same module of the layer behind it; in the last, of any.

    Args:
        columns: The weights, each as those of all runs.
        paths: The runs' modules.
        outside: Where weights stand.
    """
    modules = set()
    for names in columns:
        below = {
            weight.removeprefix(f"{path}.") if weight.startswith(f"{path}.") else ""
            for path, weight in zip(paths[1:], map(outside.weights.__getitem__, names), strict=False)
        }
        if len(below) != 1 or "" in below:
            return False
        inside, behind = below.pop(), outside.weights[names[-1]]
        if inside.rpartition(".")[2] != behind.rpartition(".")[2]:
            return False
        modules.add((inside.rpartition(".")[0], behind.rpartition(".")[0]))
    return len(modules) == 1 and all(modules.pop())


def leaves_some_out(repeat: Repeat, outside: Outside) -> bool:
    """Whether runs that are given the weights of what comes next are not all that a list holds to its end."""
    if not any(repeat.following):
        return False
    owner, _, last = repeat.paths[-1].rpartition(".")
    positions = outside.positions.get(owner, ())
    behind = outside.weights[repeat.following[-1][0]]
    return not last.isdigit() or [int(last)] != [*positions[-1:]] or behind.startswith(f"{owner}.")


def following_of(graph: CapturedGraph, repeat: Repeat, pattern: int) -> Following | None:
    """What a repeat's runs are given of the modules behind them; None if that is nothing."""
    if not any(repeat.following):
        return None
    targets: Mapping[str, str] = {entry.node: entry.target for entry in graph.inputs}
    first, last = (
        targets[names[0]].rpartition(".")[0] for names in (repeat.following[0], repeat.following[-1])
    )
    weights = {name: targets[name].rpartition(".")[2] for name in repeat.following[pattern]}
    return Following(first.removeprefix(f"{repeat.paths[1]}."), last, weights)
