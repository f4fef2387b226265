"""Layers that end in the first module of the next one, or of what stands behind all of them.

A layer that adds up what it leaves and normalizes it for the next one, in one kernel, is given that one's norm.
Backwards a layer behind a norm ends in the derivative of that norm: it is given the norm of the layer before, or of
what stands before all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longhand.capture.graph import CapturedGraph
from longhand.schedule.layers.model_steps import Following, Preceding
from longhand.schedule.layers.outside import Outside
from longhand.schedule.plan import Repeat

PREVIOUS = (
    "previous "  # before the path of a weight of the layer before: what a layer returns its gradient as
)


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


def own_and_preceding(
    graph: CapturedGraph, repeat: Repeat
) -> tuple[tuple[tuple[str, ...], ...], Preceding | None]:
    """What each run of a backward pass reads alone, and what it is given of the layer before instead.

    Args:
        graph: Of the backward pass.
        repeat: The layers, from the last one to the first.
    """
    preceding = _preceding_of(graph, repeat) if repeat.own and graph.of_module else None
    if preceding is None:
        return repeat.own, None
    places = [place for place, name in enumerate(repeat.own[0]) if name not in preceding.weights]
    return tuple(tuple(names[place] for place in places) for names in repeat.own), preceding


def _preceding_of(graph: CapturedGraph, repeat: Repeat) -> Preceding | None:
    """Whose weights a repeat's runs read of the layer before, in a backward pass; None if that is no one module.

    All are trained: the caller's module has them as they were in the forward pass.
    """
    owner, _, begin = repeat.paths[-1].rpartition(".")
    numbers = [path.rpartition(".")[2] for path in repeat.paths]
    if not all(map(str.isdigit, numbers)) or sorted(map(int, numbers), reverse=True) != [*map(int, numbers)]:
        return None
    trained = {graph.paths.get(str(output.value), "") for output in graph.outputs}
    found: dict[tuple[str, str], dict[str, str]] = {}
    for names in zip(*repeat.own, strict=True):
        paths = [graph.paths.get(name, "") for name in names]
        are_own = all(path.startswith(f"{one}.") for path, one in zip(paths, repeat.paths, strict=True))
        if any(paths) and not are_own:
            module = _module_before(paths, repeat.paths)
            if module is None or not set(paths) <= trained:
                return None
            found.setdefault(module, {})[names[0]] = paths[0].rpartition(".")[2]
    if len(found) != 1:
        return None
    (inside, first), weights = found.popitem()
    # Of layers behind one that does something else the first is given that one's.
    is_next = first == f"{owner}.{int(begin) - 1}.{inside}"
    are_words = all(kind.isidentifier() for kind in weights.values())
    if not are_words or not (is_next or (int(begin) == 0 and not first.startswith(f"{owner}."))):
        return None
    of_pattern = graph.paths[next(iter(weights))].rpartition(".")[0]
    of_it = {path: path.rpartition(".")[2] for path in trained if path.rpartition(".")[0] == of_pattern}
    return Preceding(inside, first, weights, of_it)


def _module_before(paths: Sequence[str], layers: Sequence[str]) -> tuple[str, str] | None:
    """(a module inside every layer before, what stands in its place for the first one) of one weight of each."""
    owner = layers[0].rpartition(".")[0]
    inside = set()
    for path, layer in zip(paths[:-1], layers, strict=False):
        head = f"{owner}.{int(layer.rpartition('.')[2]) - 1}."
        inside.add(path.removeprefix(head) if path.startswith(head) else "")
    below = inside.pop() if len(inside) == 1 else ""
    module, _, kind = below.rpartition(".")
    first, _, other = paths[-1].rpartition(".")
    return (module, first) if module and first and kind == other else None
