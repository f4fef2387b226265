"""The gradients that a backward pass returns: in which order, and which of layers are told together, in a loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from longhand.capture.graph import CapturedGraph, InputKind, TrainingGraphs
from longhand.lower.ir import View
from longhand.schedule.layers.model_steps import LayerCall, Loop, ModelStep, loops_of, plain_steps
from longhand.schedule.names.reached import Reached
from longhand.schedule.plan import UnitPlan, buffers_read

FEWEST_LAYERS = 3  # that are told together

Entry = tuple[str, int, int]  # the dictionary, how much later in it, and the place


@dataclasses.dataclass(frozen=True)
class GradientsOfLoop:
    """All gradients of layers whose numbers are evenly spaced, in order.

    Attributes:
        word: The dictionary that holds them, by layer.
        first: The first layer.
        last: The last one.
        step: From one to the next: 2, where a list holds a linear layer and an activation in turn.
    """

    word: str
    first: int
    last: int
    step: int = 1


@dataclasses.dataclass(frozen=True)
class GradientsAlike:
    """Gradients from the same places for each of several layers.

    Attributes:
        first: The first layer.
        n_layers: How many there are.
        entries: What each has, in order.
    """

    first: int
    n_layers: int
    entries: tuple[Entry, ...]


GradientGroup = int | GradientsOfLoop | GradientsAlike  # a single gradient by its place among the results


@dataclasses.dataclass(frozen=True)
class ReturnedGradients:
    """What the backward pass of a unit returns.

    Attributes:
        places: For each argument of the autograd.Function: its gradient's place among the backward graph's results.
        groups: All gradients, in the order of the arguments.
        in_layers: By buffer: the view of it that the caller gets, where a layer's function returns that view.
    """

    places: tuple[int | None, ...]
    groups: tuple[GradientGroup, ...]
    in_layers: Mapping[str, View]


def find_returned_gradients(
    training: TrainingGraphs,
    backward: UnitPlan,
    steps: Sequence[ModelStep],
    variables: Mapping[str, str],
    leaves: Sequence[str],
) -> ReturnedGradients:
    """What the backward pass returns.

    Args:
        training: Both graphs.
        backward: What the backward pass runs.
        steps: The same, as its function does it.
        variables: Of its buffers.
        leaves: The call's arguments, in order.
    """
    in_layers = _viewed_in_layers(backward, steps)
    places = _in_order(training, leaves)
    results = [
        (
            variables[result.buffer]
            if isinstance(result, View) and (result.buffer in in_layers or not result.calls)
            else ""
        )
        for result in backward.results
    ]
    order = [place for place in places if place is not None]
    paths = _paths(training)
    told = group_gradients([results[place] for place in order], [paths[place] for place in order])
    groups = tuple(order[one] if isinstance(one, int) else one for one in told)
    return ReturnedGradients(tuple(places), groups, in_layers)


def _viewed_in_layers(backward: UnitPlan, steps: Sequence[ModelStep]) -> dict[str, View]:
    """The gradients that layers return as the caller gets them: all layers' alike, and nothing else reads them."""
    views: dict[str, list[View]] = {}
    for result in backward.results:
        if isinstance(result, View):
            views.setdefault(result.buffer, []).append(result)
    only_returned = views.keys() - _read_between_layers(steps)
    returned_views: dict[str, View] = {}
    for loop in loops_of(steps):
        for place in loop.collected:
            made = [run[place] for run in loop.repeat.outputs]
            if not only_returned.issuperset(made) or any(len(views[name]) != 1 for name in made):
                continue
            calls = views[made[0]][0].calls
            if calls and all(views[name][0].calls == calls for name in made):
                returned_views |= {name: views[name][0] for name in made}
    return returned_views


def _read_between_layers(steps: Sequence[ModelStep]) -> set[str]:
    """What other steps than the layers' own read, or a layer hands on to the next one."""
    buffers: set[str] = set()
    for step in steps:
        if isinstance(step, Loop | LayerCall):
            buffers.update(*step.repeat.inputs)
        else:
            buffers.update(buffer for plain in plain_steps(step) for buffer in buffers_read(plain))
    return buffers


def _in_order(training: TrainingGraphs, leaves: Sequence[str]) -> list[int | None]:
    """For each argument of apply(), the place of its gradient among the backward graph's results."""
    graph = training.forward
    wanted = {name: place for place, name in enumerate(training.gradients)}
    nodes = {entry.target: entry.node for entry in graph.inputs if entry.kind is InputKind.PARAMETER}
    paths = parameter_order(graph) if graph.is_module else []
    model: list[int | None] = [None] if graph.is_module else []
    return [
        *model,
        *(wanted.get(leaf) for leaf in leaves),
        *(wanted.get(nodes.get(path, "")) for path in paths),
    ]


def _paths(training: TrainingGraphs) -> list[str]:
    """Of each result: the path of the weight that it is the gradient of; empty for an argument's."""
    inputs = {entry.node: entry for entry in training.forward.inputs}
    gradients = (inputs[name] for name in training.gradients)
    return [entry.target if entry.kind is InputKind.PARAMETER else "" for entry in gradients]


@dataclasses.dataclass
class _Module:
    """What a module holds: by name the path of each parameter, and its sub-modules, in order."""

    parameters: dict[str, str] = dataclasses.field(default_factory=dict)
    modules: dict[str, _Module] = dataclasses.field(default_factory=dict)

    def at(self, path: str) -> _Module:
        module = self
        for part in path.split(".") if path else ():
            module = module.modules.setdefault(part, _Module())
        return module

    def in_order(self) -> Iterator[str]:
        yield from self.parameters.values()
        modules = list(self.modules.items())
        if all(name.isdigit() for name in self.modules):
            modules.sort(key=lambda entry: int(entry[0]))
        for _, module in modules:
            yield from module.in_order()


def parameter_order(graph: CapturedGraph) -> list[str]:
    """The paths of the parameters in the order of ``module.parameters()``; tied ones once, under their first path."""
    root = _Module()
    kinds: dict[str, InputKind] = {}
    for entry in graph.inputs:
        if not entry.is_given:
            kinds[entry.target] = entry.kind
            owner, _, name = entry.target.rpartition(".")
            module = root.at(owner)  # which has its place by what it holds first, of whichever kind
            if entry.kind is InputKind.PARAMETER:
                module.parameters[name] = entry.target
    for first, *others in graph.tied:
        for other in others:
            owner, _, name = other.rpartition(".")
            module = root.at(owner)
            if kinds.get(first) is InputKind.PARAMETER:
                module.parameters[name] = first
    return list(dict.fromkeys(root.in_order()))


def group_gradients(variables: Sequence[str], paths: Sequence[str]) -> list[GradientGroup]:
    """What is returned, in order: single gradients, and those of layers together.

    Args:
        variables: How each gradient is reached; empty where it is more than a variable.
        paths: Of the weight that it belongs to, or empty.
    """
    groups: list[GradientGroup] = []
    entries = [_of_layer(variable) for variable in variables]
    n_each = _numbers_of_gradients(entries)
    place = 0
    while place < len(entries):
        together = _all_of_loop(entries[place:], n_each) or _layers_alike(entries[place:], paths[place:])
        n_gradients, group = together or (1, place)
        groups.append(group)
        place += n_gradients
    return groups


def _layers_alike(entries: Sequence[Entry | None], paths: Sequence[str]) -> tuple[int, GradientsAlike] | None:
    """How many of the first gradients are those of several layers, from the same places for each.

    A weight's gradient may be made where the layer before it is: there it computes again what the weight was given.
    """
    first = _layer_of_path(paths[0])
    if first is None:
        return None
    owner, position = first
    wanted: list[Entry] = []
    n_layers = done = 0
    while True:
        end = done
        while end < len(paths) and _layer_of_path(paths[end]) == (owner, position + n_layers):
            end += 1
        relative_entries = [
            (word, layer - position - n_layers, place)
            for word, layer, place in (one for one in entries[done:end] if one is not None)
        ]
        if not relative_entries or None in entries[done:end] or (wanted and relative_entries != wanted):
            break
        wanted, done, n_layers = relative_entries, end, n_layers + 1
    return (done, GradientsAlike(position, n_layers, tuple(wanted))) if n_layers >= FEWEST_LAYERS else None


def _layer_of_path(path: str) -> tuple[str, int] | None:
    """The first list on the way to a weight, and the place in it: ``("blocks", 3)``."""
    parts = path.split(".")
    place = next((n for n, part in enumerate(parts) if part.isdigit()), None)
    return (".".join(parts[:place]), int(parts[place])) if place is not None else None


def _numbers_of_gradients(entries: Sequence[Entry | None]) -> dict[tuple[str, int], int]:
    """By dictionary and layer: how many gradients it returned. Layers in turn have different numbers of weights."""
    n_each: dict[tuple[str, int], int] = {}
    for word, layer, place in filter(None, entries):
        n_each[word, layer] = max(place + 1, n_each.get((word, layer), 0))
    return n_each


def _all_of_loop(
    returned: Sequence[Entry | None], n_each: Mapping[tuple[str, int], int]
) -> tuple[int, GradientsOfLoop] | None:
    """How many of the first gradients are all those of layers with evenly spaced numbers, in order."""
    if returned[0] is None:
        return None
    word, first, _ = returned[0]
    entries = [(layer, place) for of, layer, place in filter(None, returned) if of == word]
    layers = sorted({layer for layer, _ in entries})  # the dictionary has no others
    last, step = layers[-1], layers[1] - layers[0] if len(layers) > 1 else 1
    if layers != list(range(first, last + 1, step)):
        return None
    expected = [(layer, place) for layer in layers for place in range(n_each[word, layer])]
    if entries != expected or any(one is None or one[0] != word for one in returned[: len(expected)]):
        return None
    return len(expected), GradientsOfLoop(word, first, last, step)


def _of_layer(variable: str) -> Entry | None:
    """(dictionary, layer, place) of what a layer returned for one of its weights: ``d_blocks[3][0]``."""
    match variable.steps if isinstance(variable, Reached) else ():
        case (str(word), int(layer), int(place)):
            return word, layer, place
    return None
