"""Which weights a backward pass reads where the module has them, and how the names of the others end."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from longhand.capture.graph import CapturedGraph, InputKind, TrainingGraphs
from longhand.schedule.layers.model_steps import Loop
from longhand.schedule.layers.returned_gradients import parameter_order

_FEWEST = 3  # parameters of a module that is told as a whole


def paths_of_weights(training: TrainingGraphs, forward: CapturedGraph) -> dict[str, str]:
    """By placeholder: the path of the parameter that it is, which is read where the module has it.

    Args:
        training: Both graphs.
        forward: What was captured.
    """
    if not forward.is_module:
        return {}
    given = {entry.node: entry for entry in forward.inputs if entry.kind is InputKind.PARAMETER}
    sources = ((entry.node, given.get(str(entry.source))) for entry in training.inputs)
    return {node: parameter.target for node, parameter in sources if parameter is not None}


def weights_inside(loop: Loop, weights: Mapping[str, str]) -> dict[int, str]:
    """Which of what each layer reads are weights of its own, by their paths inside the layer.

    Args:
        loop: Of the backward pass.
        weights: By placeholder: the path of a parameter.
    """
    inside: dict[int, str] = {}
    for place, nodes in enumerate(zip(*loop.own, strict=True)):
        heads = [f"{loop.owner}.{position}." for position in loop.positions]
        paths = [weights.get(node, "") for node in nodes]
        below = {path.removeprefix(head) for path, head in zip(paths, heads, strict=True)}
        are_own = all(path.startswith(head) for path, head in zip(paths, heads, strict=True))
        if are_own and len(below) == 1:
            inside[place] = below.pop()
    return inside


def unread_weights(
    single: Collection[str], loops: Sequence[Loop], weights: Mapping[str, str], graph: CapturedGraph
) -> tuple[str, ...]:
    """How the names of the parameters end that are not read where the module has them.

    Args:
        single: Placeholders that the backward function reads itself.
        loops: Its layers.
        weights: By placeholder: the path of a parameter.
        graph: What was captured.
    """
    read = {weights[node] for node in single if node in weights}
    for loop in loops:
        inside = weights_inside(loop, weights)
        read |= {weights[nodes[place]] for nodes in loop.own for place in inside}
    return unread_endings(parameter_order(graph), read) if graph.is_module else ()


def unread_endings(paths: Sequence[str], read: Collection[str]) -> tuple[str, ...]:
    """How the names of the parameters end that a backward pass does not read, ``.bias``, and those of no other.

    Of modules of which it reads nothing how they begin, ``vision_model.``, where that is shorter.

    Args:
        paths: Of all parameters; ``model.`` before them tells whole names from endings.
        read: Of those that it reads.
    """
    modules = tuple(dict.fromkeys(one for path in paths if (one := _unread_module(path, paths, read))))
    rest = [path for path in paths if not path.startswith(modules)]
    return min(_endings(paths, read), (*modules, *_endings(rest, read)), key=len)


def _unread_module(path: str, paths: Sequence[str], read: Collection[str]) -> str:
    """The outermost module around a parameter of which nothing is read: ``vision_model.``, of a few parameters none."""
    parts = path.split(".")
    for n in range(1, len(parts)):
        module = f"{'.'.join(parts[:n])}."
        if not any(one.startswith(module) for one in read):
            return module if sum(one.startswith(module) for one in paths) >= _FEWEST else ""
    return ""


def _endings(paths: Sequence[str], read: Collection[str]) -> tuple[str, ...]:
    endings: list[str] = []
    of_read = [f"model.{path}" for path in read]
    for path in paths:
        if path in read or f"model.{path}".endswith(tuple(endings)):
            continue
        parts = path.split(".")
        candidates = [f".{'.'.join(parts[-n:])}" for n in range(1, len(parts) + 1)]
        candidates.append(f"model.{path}")
        endings.append(
            next(one for one in candidates if not any(map(str.endswith, of_read, [one] * len(of_read))))
        )
    return tuple(endings)
