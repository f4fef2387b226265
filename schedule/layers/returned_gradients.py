"""The gradients that a backward pass returns: in which order, and which of layers are told together, in a loop."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from longhand.capture.graph import CapturedGraph, InputKind, TrainingGraphs
from longhand.lower.ir import View
from longhand.schedule.layers.following import PREVIOUS
from longhand.schedule.layers.model_steps import LayerCall, Loop, ModelStep, loops_of, plain_steps
from longhand.schedule.names.reached import Reached
from longhand.schedule.names.variables import gradients_word
from longhand.schedule.plan import UnitPlan, buffers_read


@dataclasses.dataclass(frozen=True)
class OneGradient:
    """The gradient of a parameter.

    Attributes:
        path: The parameter's.
        place: Among the backward graph's results.
    """

    path: str
    place: int


@dataclasses.dataclass(frozen=True)
class GradientsOfLayers:
    """All gradients that a dictionary holds, by layer and by their paths inside the layers.

    Those of ``previous norm.weight`` are the layer before's: what ends a layer may be computed with the next one. The
    first layer's are nobody's here.

    Attributes:
        owner: The path of the list of layers.
        word: The dictionary.
        without: Paths of what is told apart.
    """

    owner: str
    word: str
    without: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class GradientsInTurn:
    """One gradient of each of some layers, which stands under another path, or with another layer's gradients.

    Attributes:
        owner: The path of the list of layers.
        path: Inside a layer.
        layers: Whose it is.
        word: The dictionary.
        shift: How far behind the layer it stands there.
        key: Under which path.
    """

    owner: str
    path: str
    layers: range
    word: str
    shift: int
    key: str


@dataclasses.dataclass(frozen=True)
class GradientsOfModule:
    """All gradients that the derivative of a module returns, by their paths inside it.

    Attributes:
        path: The module's.
        word: The dictionary.
    """

    path: str
    word: str


GradientGroup = OneGradient | GradientsOfLayers | GradientsInTurn | GradientsOfModule


@dataclasses.dataclass(frozen=True)
class ReturnedGradients:
    """What the backward pass of a unit returns.

    Attributes:
        places: For each argument of the autograd.Function: its gradient's place among the backward graph's results.
        arguments: The places of those of the call's arguments, in order.
        groups: Those of parameters, by name, in the order of the parameters.
        in_layers: By buffer: the view of it that the caller gets, where a layer's function returns that view.
    """

    places: tuple[int | None, ...]
    arguments: tuple[int, ...]
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
    arguments = tuple(place for place in order if not paths[place])
    named = [OneGradient(paths[place], place) for place in order if paths[place]]
    whole = _whole_dictionaries(steps, {results[one.place]: one.path for one in named})
    groups: dict[GradientGroup, None] = {}
    for one in named:
        groups[whole.get(results[one.place], one)] = None
    return ReturnedGradients(tuple(places), arguments, tuple(groups), in_layers)


def _whole_dictionaries(
    steps: Sequence[ModelStep], paths: Mapping[str, str]
) -> dict[str, GradientsOfLayers | GradientsInTurn]:
    """For each gradient that stands in a dictionary of layers' gradients, that dictionary, where it is told as one.

    It is where it holds those of the layers' own weights, or of the layers' before, and nothing else.

    Args:
        steps: Of the function that computes the gradients.
        paths: The weight of each gradient that is returned, by how that is reached.
    """
    entries: dict[str, list[tuple[str, int, str]]] = {}
    for variable in paths:
        match variable.steps if isinstance(variable, Reached) else ():
            case (str(word), int(layer), str(key)):
                entries.setdefault(word, []).append((variable, layer, key[2:-2]))
    n_held = Counter[str]()
    owners: dict[str, set[str]] = {}
    for step in steps:
        loop = step.loop if isinstance(step, LayerCall) else step
        if isinstance(loop, Loop) and loop.collected:
            n_runs = 1 if isinstance(step, LayerCall) else len(loop.positions)
            word = gradients_word(loop, steps)
            n_held[word] += n_runs * len(loop.collected)
            owners.setdefault(word, set()).add(loop.owner)
    whole: dict[str, GradientsOfLayers | GradientsInTurn] = {}
    for word, of in entries.items():
        if len(of) == n_held[word] and len(owners[word]) == 1:
            owner = next(iter(owners[word]))
            whole |= _told_together(word, owner, of, paths) or _told_in_turn(word, owner, of, paths)
    return whole


def _told_together(
    word: str, owner: str, entries: Sequence[tuple[str, int, str]], paths: Mapping[str, str]
) -> dict[str, GradientsOfLayers]:
    """The group of each entry of a dictionary but the first layer's of those that are the layer before's."""
    first = min(layer for _, layer, _ in entries)
    own = [entry for entry in entries if not entry[2].startswith(PREVIOUS) or entry[1] != first]
    for variable, layer, key in own:
        if paths[variable] != f"{owner}.{layer - key.startswith(PREVIOUS)}.{key.removeprefix(PREVIOUS)}":
            return {}
    group = GradientsOfLayers(owner, word)
    return {variable: group for variable, _, _ in own}


def _told_in_turn(
    word: str, owner: str, entries: Sequence[tuple[str, int, str]], paths: Mapping[str, str]
) -> dict[str, GradientsOfLayers | GradientsInTurn]:
    """The groups of a dictionary's entries where layers of several kinds take turns.

    What every layer has under its own path is one group; of the rest those that come once in each turn are.
    """
    apart = dict.fromkeys(
        key for variable, layer, key in entries if paths[variable] != f"{owner}.{layer}.{key}"
    )
    own = GradientsOfLayers(owner, word, without=tuple(apart))
    others = [entry for entry in entries if entry[2] in apart]
    n_layers = 1 + max(layer for _, layer, _ in entries)
    turns = [_turns(word, owner, others, paths, period) for period in range(1, n_layers)]
    told = min(turns, key=lambda groups: len(others) - len(groups) + len(set(groups.values())), default={})
    return {variable: own for variable, _, key in entries if key not in apart} | told


def _turns(
    word: str, owner: str, entries: Sequence[tuple[str, int, str]], paths: Mapping[str, str], period: int
) -> dict[str, GradientsInTurn]:
    """The entries that come once in each turn of so many layers."""
    turns: dict[tuple[str, int, str, int], dict[int, str]] = {}
    for variable, layer, key in entries:
        head, _, path = paths[variable].removeprefix(f"{owner}.").partition(".")
        if paths[variable].startswith(f"{owner}.") and head.isdigit():
            turns.setdefault((path, layer - int(head), key, int(head) % period), {})[int(head)] = variable
    groups: dict[str, GradientsInTurn] = {}
    for (path, shift, key, _), of in turns.items():
        layers = range(min(of), max(of) + 1, period)
        if len(layers) == len(of) > 1:
            groups |= dict.fromkeys(of.values(), GradientsInTurn(owner, path, layers, word, shift, key))
    return groups


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
