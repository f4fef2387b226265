"""Arguments that stack what every layer has of its own: ``keys (layer, batch, head, seq, head_dim)``.

Each layer takes its slice, ``keys[3]``, reads it and writes into it. As one tensor they keep layers apart that are
equal otherwise: each sees other elements of the same memory. So each slice is an input of its own
(`InputKind.PART`), as if the caller had given a list, and the layers are one function that takes its slice.

That is so of an argument whose first dimension is all indexed by numbers, each slice for another member of a list of
modules, and which nothing sees as a whole. Slices share no element, so that what is written into one is in no other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import torch
from torch import fx

from longhand.capture.graph import CapturedGraph, GraphInput, InputKind, Mutation, members_reading

aten = torch.ops.aten

FEWEST = 3


@dataclasses.dataclass(frozen=True)
class _Stack:
    """An argument as its slices.

    Attributes:
        given: Its placeholder.
        contents: For each node that is the whole of it, after writes: by slice that was written, what it holds.
        reads: By node that selects a slice: the node that is the whole of it, and which slice.
    """

    given: fx.Node
    contents: Mapping[fx.Node, Mapping[int, fx.Node]]
    reads: Mapping[fx.Node, tuple[fx.Node, int]]


def split_stacks(graph: CapturedGraph) -> CapturedGraph:
    """The graph with stacked arguments in parts; itself where there are none."""
    if not graph.is_module or graph.n_saved or graph.paths:
        return graph
    nodes = {node.name: node for node in graph.graph.nodes}
    stacks = [stack for entry in graph.inputs if (stack := _stack(graph, entry, nodes)) is not None]
    return _in_parts(graph, stacks) if stacks else graph


def _stack(graph: CapturedGraph, entry: GraphInput, nodes: Mapping[str, fx.Node]) -> _Stack | None:
    """An argument as a stack; None if it is none, or has to stay whole."""
    given = nodes[entry.node]
    value = given.meta.get("val")
    if entry.kind is not InputKind.ARGUMENT or not isinstance(value, torch.Tensor) or value.ndim < 2:
        return None
    size = value.shape[0]
    shared = {name for group in graph.shared_storage for name in group}
    fixed = shared | {one.input_node for one in graph.symbols} | {*graph.grad_inputs, *graph.rewritten}
    if not isinstance(size, int) or size < FEWEST or entry.node in fixed:
        return None
    stack = _walk(given, size)
    if stack is None:
        return None
    wholes = {node.name for node in stack.contents}
    is_seen = any(not wholes.isdisjoint((output.value, output.base)) for output in graph.outputs)
    return None if is_seen or not _is_one_for_each_layer(stack, size) else stack


def _walk(given: fx.Node, size: int) -> _Stack | None:
    """What is done with a stack; None where something else is done than to take slices and to put them back."""
    contents: dict[fx.Node, dict[int, fx.Node]] = {given: {}}
    reads: dict[fx.Node, tuple[fx.Node, int]] = {}
    waiting = [given]
    while waiting:
        whole = waiting.pop()
        for user in whole.users:
            if user.op == "output":
                continue
            place = _place(user, whole, size)
            if place is None:
                return None
            if user.target is aten.select.int:
                reads[user] = whole, place
                continue
            content = user.args[1]
            assert isinstance(content, fx.Node)
            contents[user] = {**contents[whole], place: content}
            waiting.append(user)
    return _Stack(given, contents, reads)


def _place(user: fx.Node, whole: fx.Node, size: int) -> int | None:
    """Which slice a node takes of a stack, or puts into it; None if it does something else."""
    if user.kwargs:
        return None
    if user.target is aten.select.int:
        _, dim, place = user.args
    elif user.target is aten.select_scatter.default and user.args[0] is whole and user.args[1] is not whole:
        dim, place = user.args[2:4]
    else:
        return None
    if dim != 0 or not isinstance(place, int):
        return None
    return place + size if place < 0 else place


def _is_one_for_each_layer(stack: _Stack, size: int) -> bool:
    """Whether each slice is for another member of one list of modules, in order."""
    members: list[set[tuple[str, int]]] = [set() for _ in range(size)]
    for node, (_, place) in stack.reads.items():
        members[place] |= members_reading(node)
    for owner in {owner for owner, _ in members[0]}:
        numbers = [[number for one, number in own if one == owner] for own in members]
        if all(len(own) == 1 for own in numbers):
            first = numbers[0][0]
            if [own[0] for own in numbers] == [*range(first, first + size)]:
                return True
    return False


def _in_parts(graph: CapturedGraph, stacks: Sequence[_Stack]) -> CapturedGraph:
    """The graph with an input for each slice."""
    written = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for node in placeholders:
        copies[node] = written.node_copy(node, copies.__getitem__)
    parts = {stack.given: _add_parts(written, stack.given) for stack in stacks}
    held = {whole: stack for stack in stacks for whole in stack.contents}
    reads = {node: read for stack in stacks for node, read in stack.reads.items()}
    mutations: list[Mutation] = []
    nodes = {node.name: node for node in graph.graph.nodes}
    for entry in graph.mutations:
        value = nodes[entry.value_node]
        if value in held:
            own, contents = parts[held[value].given], held[value].contents[value]
            mutations += [Mutation(own[place].name, contents[place].name) for place in sorted(contents)]
        else:
            mutations.append(entry)
    for node in graph.graph.nodes:
        if node in reads:
            whole, place = reads[node]
            content = held[whole].contents[whole].get(place)
            copies[node] = copies[content] if content is not None else parts[held[whole].given][place]
        elif node.op == "output":
            results = [nodes[output.value] for output in graph.outputs if isinstance(output.value, str)]
            values = [*results, *(nodes[entry.value_node] for entry in mutations)]
            written.output(tuple(copies[value] for value in values))
        elif node not in held and node.op != "placeholder":
            copies[node] = written.node_copy(node, copies.__getitem__)
    inputs = [
        GraphInput(part.name, InputKind.PART, f"{given.name}[{place}]", part=(given.name, place))
        for given, own in parts.items()
        for place, part in enumerate(own)
    ]
    renamed = [Mutation(entry.input_node, copies[nodes[entry.value_node]].name) for entry in mutations]
    return dataclasses.replace(
        graph, graph=written, inputs=(*graph.inputs, *inputs), mutations=tuple(renamed)
    )


def _add_parts(graph: fx.Graph, given: fx.Node) -> list[fx.Node]:
    """A placeholder for each slice of an argument."""
    parts = []
    for place in range(given.meta["val"].shape[0]):
        part = graph.create_node("placeholder", f"{given.name}_{place}", name=f"{given.name}_{place}")
        with torch.no_grad():
            part.meta = {**given.meta, "val": given.meta["val"].select(0, place)}
        parts.append(part)
    return parts
