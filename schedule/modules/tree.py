"""Which modules there are, what each holds, and which functions make several of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from torch import nn

from longhand.capture.graph import CapturedGraph, InputKind
from longhand.lower.ir import Buffer, BufferKind
from longhand.schedule.layers.loop_inputs import NO_CLASS, class_of
from longhand.schedule.layers.model_steps import ModelStep, layers_called, loops_of
from longhand.schedule.modules.held import Branch, HeldModules, HeldTensor
from longhand.schedule.modules.value_sources import is_in_state_dict, value_sources
from longhand.schedule.modules.weight_functions import find_weight_functions
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.words import identifier, own_name

_FEWEST_HELD = 10  # tensors of which some may be made by one function
_OF_MODULES = frozenset({*dir(nn.Module), "launch"})


def find_modules(
    graph: CapturedGraph,
    buffers: Mapping[str, Buffer],
    steps: Sequence[ModelStep],
    words: BufferNamer,
    variables: Collection[str],
    also: Sequence[ModelStep] = (),
) -> HeldModules:
    """What the module of a pass holds.

    Args:
        graph: What was captured.
        buffers: How the placeholders lie in memory.
        steps: Of model.py.
        words: The graph's.
        variables: What functions of the file bind, which would hide a function of that name.
        also: Of another pass that reads this module.
    """
    layers = layers_by_class(steps)
    held = _grow(graph, buffers, open_layouts(buffers), layers, layers_by_class(also))
    if not graph.is_module or graph.given or len(held.places) < _FEWEST_HELD:
        return held

    def class_name(path: str) -> str:
        name = class_of(graph, path, words)
        return "" if name == NO_CLASS else own_name(name)

    return dataclasses.replace(
        held, functions=find_weight_functions(held.root, layers, class_name, variables)
    )


def layers_by_class(steps: Sequence[ModelStep]) -> dict[str, frozenset[int]]:
    """By the path of a list: the positions of the layers that are called by a class's methods."""
    layers: dict[str, frozenset[int]] = {}
    for loop in loops_of(steps):
        layers[loop.owner] = layers.get(loop.owner, frozenset()) | layers_called(loop)
    return layers


def _grow(
    graph: CapturedGraph,
    buffers: Mapping[str, Buffer],
    channels_last: frozenset[str],
    layers: Mapping[str, frozenset[int]],
    also_counted: Collection[str],
) -> HeldModules:
    """The tree for all parameters, buffers and constants of a captured graph.

    Args:
        graph: What was captured.
        buffers: How the placeholders lie in memory.
        channels_last: Placeholders of the parameters that are made channels last.
        layers: By the path of a list: the positions of those of its layers that share a class.
        also_counted: Paths of lists whose layers another pass's loops reach by their places.
    """
    root = Branch()
    sources = value_sources(graph, layers)
    places: dict[str, str] = {}
    nodes = {node.name: node for node in graph.graph.nodes}
    branches: dict[str, Branch] = {}
    for entry in graph.inputs:
        if entry.is_given:
            continue
        value = nodes[entry.node].meta["val"]
        path = entry.target
        if entry.kind is InputKind.CONSTANT:
            path = _constant_path(entry.target, root, graph.is_module)
        owner, _, name = path.rpartition(".")
        if owner not in branches:
            branches[owner] = root.at(owner)
        branches[owner].held[name] = HeldTensor(
            entry.kind,
            tuple(map(int, value.shape)),
            value.dtype,
            is_in_state_dict(entry),
            sources.get(entry.target),
            channels_last=entry.node in channels_last,
            strides=() if entry.node in channels_last else _odd_strides(buffers.get(entry.node)),
        )
        places[entry.node] = path
    for first, *others in graph.tied:
        owner, _, name = first.rpartition(".")
        held = root.at(owner).held[name]
        for other in others:
            other_owner, _, other_name = other.rpartition(".")
            root.at(other_owner).held[other_name] = dataclasses.replace(held, tied_to=first)
    of_others = (owner for owner in also_counted if any(path.startswith(f"{owner}.") for path in branches))
    for owner in dict.fromkeys((*layers, *of_others)):
        _fill_gaps(root.at(owner))
    _number_in_order(root)
    return HeldModules(root, places, sources)


def _odd_strides(buffer: Buffer | None) -> tuple[int, ...]:
    """The strides of a tensor that is not contiguous; of one that no kernel reads, none."""
    if buffer is None or buffer.is_contiguous:
        return ()
    return tuple(int(step) for step in buffer.stride)


def _fill_gaps(layers: Branch) -> None:
    """Keeps the places of layers that hold nothing (a skipped layer, ``nn.Identity``): a loop counts by places."""
    if all(name.isdigit() for name in layers.branches):
        for number in range(max(map(int, layers.branches), default=0)):
            layers.branches.setdefault(str(number), Branch(is_gap=True))


def _number_in_order(branch: Branch) -> None:
    """Puts the members of lists into order: those that hold only what others hold, too, came last."""
    if branch.branches and all(name.isdigit() for name in branch.branches):
        for name in sorted(branch.branches, key=int):
            branch.branches[name] = branch.branches.pop(name)
    for child in branch.branches.values():
        _number_in_order(child)


def _constant_path(target: str, root: Branch, is_module: bool) -> str:
    """Where a constant is held: where the model holds it. What it does not hold is at the root, by a plain word."""
    if is_module and "." in target:
        return target
    word = identifier(target.rpartition(".")[2]).lstrip("_")
    choices = [word, *(f"{word}_{number}" for number in range(2, 2 + len(root.held)))]
    if not word or word.startswith(("tensor_constant", "lifted_tensor", "constant")):
        choices = ["table", "constant", "lookup", "other_table", "other_constant", *choices[bool(word) :]]
    taken = {*root.held, *root.branches, *_OF_MODULES}
    return next(choice for choice in choices if choice not in taken)


def open_layouts(buffers: Mapping[str, Buffer]) -> frozenset[str]:
    """The parameters that no kernel reads and whose layout is therefore open."""
    return frozenset(
        buffer.name
        for buffer in buffers.values()
        if buffer.kind is BufferKind.WEIGHT and not buffer.layout_is_known
    )
