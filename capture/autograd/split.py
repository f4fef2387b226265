"""A partitioned joint graph as two captured graphs: the call, which also returns what the backward reads, and the
backward, a function of that and of the results' gradients."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private
from longhand.capture.autograd.joint_graph import Joint
from longhand.capture.autograd.kept.partition import Partition
from longhand.capture.autograd.shared_results import is_shared
from longhand.capture.devices import move_to_target
from longhand.capture.functionalize.dead_code import does_something
from longhand.capture.functionalize.decompositions import packet_name
from longhand.capture.functionalize.view_nodes import is_view
from longhand.capture.graph import (
    AliasKind,
    BackwardInput,
    BackwardKind,
    CapturedGraph,
    GraphInput,
    GraphOutput,
    InputKind,
    Mutation,
    Provenance,
    TrainingGraphs,
)
from longhand.capture.known.ranges import range_of, tell_range
from longhand.options import Target

aten = torch.ops.aten
_MAY_BE_THE_SAME = frozenset({"alias", "detach", "contiguous", "to", "_to_copy"})


def split(partition: Partition, target: Target) -> TrainingGraphs:
    """The two graphs of a partition, on the target's device."""
    return _Splitter(partition, target).split()


class _Splitter:
    def __init__(self, partition: Partition, target: Target) -> None:
        self.partition = partition
        self.joint: Joint = partition.joint
        self.captured = self.joint.captured
        self.target = target

    def split(self) -> TrainingGraphs:
        results = [
            self.joint.node_of[output.value] if isinstance(output.value, str) else None
            for output in self.captured.outputs
        ]
        own = [
            None if is_shared(output) else node
            for output, node in zip(self.captured.outputs, results, strict=True)
        ]
        written = self.captured.overwritten
        clones = [node for node in self.partition.inputs if node.name in written]
        saved = [node for node in self.partition.saved if node not in own]
        forward, names, clone_names = self._forward(results, saved, clones)
        sources: dict[fx.Node, tuple[str, BackwardKind, str | int]] = {}
        for node in self.partition.inputs:
            if node not in clones:
                sources[node] = (names[node], BackwardKind.INPUT, names[node])
        for node in self.partition.saved:
            if node in own:
                sources[node] = (names[node], BackwardKind.RESULT, own.index(node))
        for place, node in enumerate(saved):
            sources[node] = (names[node], BackwardKind.SAVED, len(results) + place)
        for place, (node, word) in enumerate(zip(clones, clone_names, strict=True)):
            sources[node] = (word, BackwardKind.SAVED, len(results) + len(saved) + place)
        for position, tangent in self.joint.tangents:
            sources[tangent] = (self._word(tangent), BackwardKind.GRADIENT, position)
        backward, inputs = self._backward(sources)
        return TrainingGraphs(
            forward,
            backward,
            inputs,
            tuple(names[self.joint.node_of[name]] for name, _ in self.joint.gradients),
            tuple(position for position, _ in self.joint.tangents),
            str(self.partition),
            self.joint.flows,
        )

    # The forward pass.

    def _forward(
        self, results: Sequence[fx.Node | None], saved: Sequence[fx.Node], clones: Sequence[fx.Node]
    ) -> tuple[CapturedGraph, dict[fx.Node, str], list[str]]:
        mutations = [
            (self.joint.node_of[entry.input_node], self.joint.node_of[entry.value_node])
            for entry in self.captured.mutations
        ]
        tangents = {node for _, node in self.joint.tangents}
        roots = [node for node in results if node is not None] + [*saved, *clones]
        # What is called because it may raise is read by nothing; what a derivative would raise is not looked for.
        checks = [node for node in self.joint.graph.nodes if does_something(node.target)]
        roots += [node for node in checks if tangents.isdisjoint(_ancestors([node]))]
        needed = _ancestors(roots + [node for pair in mutations for node in pair])
        builder = _Builder()
        for node in self.joint.graph.nodes:
            if node.op == "placeholder" and node not in tangents:
                builder.placeholder(node, node.name)
        nodes = [node for node in self.joint.graph.nodes if node.op == "call_function" and node in needed]
        builder.reserve(self._word(node) for node in nodes if "word" in node.meta)
        shown = {node for node in saved if is_view(node)}
        parts: dict[fx.Node, fx.Node] = {}
        for node in nodes:
            builder.copy(node, self._word(node))
            if node in shown:
                parts[node] = builder.clone(node, self._word(node))
        clone_nodes = [builder.clone(node, f"old_{node.name}") for node in clones]
        whole = {node: copy.name for node, copy in builder.copies.items()}
        names = whole | {node: copy.name for node, copy in parts.items()}
        # What the user gets as a view is one, and not the copy that is kept of it.
        seen = dict.fromkeys(AliasKind, whole) | {AliasKind.FRESH: names}
        kept = [parts.get(node, builder.copies[node]) for node in saved] + clone_nodes
        values = [builder.copies[node] for node in results if node is not None]
        builder.graph.output((*values, *kept, *(builder.copies[value] for _, value in mutations)))
        graph = dataclasses.replace(
            self.captured,
            graph=self._on_device(builder.graph),
            outputs=(
                *(
                    output if node is None else self._output(output, seen[output.alias][node], names)
                    for output, node in zip(self.captured.outputs, results, strict=True)
                ),
                *(GraphOutput(node.name) for node in kept),
            ),
            mutations=tuple(Mutation(names[into], names[value]) for into, value in mutations),
            n_saved=len(kept),
        )
        return graph, names, [node.name for node in clone_nodes]

    def _output(self, output: GraphOutput, value: str, names: dict[fx.Node, str]) -> GraphOutput:
        if not isinstance(output.base, str):
            return dataclasses.replace(output, value=value)
        return dataclasses.replace(output, value=value, base=names[self.joint.node_of[output.base]])

    # The backward pass.

    def _backward(
        self, sources: dict[fx.Node, tuple[str, BackwardKind, str | int]]
    ) -> tuple[CapturedGraph, tuple[BackwardInput, ...]]:
        finals = [node for _, node in self.joint.gradients]
        needed = _ancestors([*finals, *self.partition.backward], set(sources))
        builder = _Builder()
        outside = [output.value for output in self.captured.outputs]
        seen_outside = {_memory(self.joint.node_of[name]) for name in outside if isinstance(name, str)}
        used = [node for node in sources if node in needed or sources[node][1] is BackwardKind.GRADIENT]
        for node in used:
            placeholder = builder.placeholder(node, sources[node][0])
            if _memory(node) not in seen_outside:  # where others may write, nothing stays known
                tell_range(placeholder, range_of(node))
        builder.reserve(self._word(node) for node in needed if "word" in node.meta and node not in sources)
        emitted = {*self.partition.backward, *finals}
        for node in self.joint.graph.nodes:
            if node in emitted:
                self._emit(builder, node)
        values = [builder.copies[node] for node in finals]
        builder.graph.output(tuple(values))
        inputs = tuple(
            BackwardInput(builder.copies[node].name, sources[node][1], sources[node][2]) for node in used
        )
        graph = self._on_device(builder.graph)
        placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        n_inputs = len(placeholders)
        tangents = {entry.node for entry in inputs if entry.kind is BackwardKind.GRADIENT}
        captured = CapturedGraph(
            name=f"{self.captured.name}_backward",
            source=self.captured.source,
            is_module=False,
            graph=graph,
            inputs=tuple(GraphInput(node.name, InputKind.ARGUMENT, node.name) for node in placeholders),
            outputs=tuple(_gradient(value, tangents) for value in values),
            signature=tuple(node.name for node in placeholders),
            in_spec=pytree.tree_structure((tuple(0 for _ in range(n_inputs)), {})),
            out_spec=pytree.tree_structure(tuple(0 for _ in values)),
            argument_leaves=tuple(node.name for node in placeholders),
            paths=self._paths(inputs, values),
            of_module=self.captured.is_module,
            given=tuple(
                entry.node for entry in inputs if entry.kind in (BackwardKind.SAVED, BackwardKind.RESULT)
            ),
        )
        return captured, inputs

    def _paths(self, inputs: Sequence[BackwardInput], values: Sequence[fx.Node]) -> dict[str, str]:
        """The parameters and buffers that placeholders stand for, and those that the gradients belong to."""
        held = {entry.node: entry.target for entry in self.captured.inputs if not entry.is_given}
        paths = {entry.node: held[str(entry.source)] for entry in inputs if entry.source in held}
        for (name, _), value in zip(self.joint.gradients, values, strict=True):
            if name in held:
                paths.setdefault(value.name, held[name])
        return paths

    def _emit(self, builder: _Builder, node: fx.Node) -> None:
        """Emits a node after what it needs: a value is computed again where it is first read."""
        waiting = [node]
        while waiting:
            current = waiting[-1]
            missing = [source for source in current.all_input_nodes if source not in builder.copies]
            if missing and current not in builder.copies:
                waiting += missing[::-1]
                continue
            waiting.pop()
            if current not in builder.copies:
                builder.copy(current, self._word(current))

    def _on_device(self, graph: fx.Graph) -> fx.Graph:
        move_to_target(graph, self.target)
        return graph

    def _word(self, node: fx.Node) -> str:
        return str(node.meta.get("word") or _op_word(node))


class _Builder:
    """A new graph of copies under unique names."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.copies: dict[fx.Node, fx.Node] = {}
        self.taken: set[str] = set()
        self.reserved: set[str] = set()

    def reserve(self, words: Iterable[str]) -> None:
        """Names that nodes of their own will want: no other node takes them."""
        self.reserved |= set(words)

    def placeholder(self, node: fx.Node, word: str) -> fx.Node:
        copy = self.graph.create_node("placeholder", "", name=self._unique(word, node))
        copy.target = copy.name
        self._known(node, copy)
        if node.op != "placeholder" and is_view(node):
            copy.meta["val"] = _copied(node)
        return copy

    def copy(self, node: fx.Node, word: str) -> fx.Node:
        args = fx.node.map_arg(node.args, self.copies.__getitem__)
        kwargs = fx.node.map_arg(node.kwargs, self.copies.__getitem__)
        name = self._unique(word, node)
        return self._known(
            node, self.graph.create_node("call_function", node.target, args, kwargs, name=name)
        )

    def clone(self, node: fx.Node, word: str) -> fx.Node:
        name = self._unique(word, node)
        copy = self.graph.create_node(
            "call_function", aten.clone.default, (self.copies[node],), {}, name=name
        )
        copy.meta = {"val": _copied(node), "provenance": Provenance()}
        return copy

    def _known(self, node: fx.Node, copy: fx.Node) -> fx.Node:
        copy.meta = {key: node.meta[key] for key in ("val", "provenance", "on_host") if key in node.meta}
        self.copies[node] = copy
        return copy

    def _unique(self, word: str, node: fx.Node) -> str:
        own = node.meta.get("word") == word
        unique, count = word, 1
        while unique in self.taken or (unique in self.reserved and not own):
            unique, count = f"{word}_{count}", count + 1
        self.taken.add(unique)
        return unique


def _copied(node: fx.Node) -> Any:
    """The value of a node's copy, which lies densely where the node shows a part of something."""
    value = node.meta["val"]
    return aten.clone.default(value) if is_view(node) else value


def _memory(node: fx.Node) -> fx.Node:
    """What a value may share its memory with."""
    while is_view(node) or (
        isinstance(node.target, torch._ops.OpOverload) and packet_name(node.target) in _MAY_BE_THE_SAME
    ):
        source = node.args[0]
        if not isinstance(source, fx.Node):
            break
        node = source
    return node


def _gradient(value: fx.Node, tangents: set[str]) -> GraphOutput:
    """A gradient that is a result's gradient seen otherwise is handed on as it is, as eager does.

    Not where kernels know no such view: as the parts of complex numbers, or of nothing.
    """
    chain: list[fx.Node] = []
    node = value
    is_plain = value.meta["val"].numel() != 0
    while node.op == "call_function" and is_view(node) and isinstance(node.args[0], fx.Node):
        chain.append(node)
        node = node.args[0]
        is_plain = is_plain and not node.meta["val"].is_complex()
    if is_plain and node.op == "placeholder" and node.name in tangents and not _copies(node, chain[::-1]):
        return GraphOutput(value.name, AliasKind.INPUT, node.name)
    return GraphOutput(value.name)


def _copies(root: fx.Node, chain: list[fx.Node]) -> bool:
    """Whether calls that look like views have to copy: the values do not tell where a trace left a copy out."""
    seen = root.meta["val"]
    sizes = (*seen.shape, *(size for node in chain for size in pytree.tree_leaves(node.args[1:])))
    if not all(isinstance(size, int | None) for size in sizes):
        return False  # sizes that vary
    tensor: Any = torch.empty_strided(seen.shape, seen.stride(), dtype=seen.dtype, device="meta")
    storage = torch_private.storage_key(tensor)
    for node in chain:
        target: Any = node.target
        tensor = target(tensor, *node.args[1:], **node.kwargs)
    return torch_private.storage_key(tensor) != storage


def _op_word(node: fx.Node) -> str:
    target: Any = node.target
    if target is operator.getitem:
        return "part"
    name = packet_name(target) if isinstance(target, torch._ops.OpOverload) else target.__name__
    return name.strip("_")


def _ancestors(roots: Iterable[fx.Node], stops: Iterable[fx.Node] = ()) -> set[fx.Node]:
    """The roots and what they follow from, up to `stops`."""
    ancestors: set[fx.Node] = set()
    ends = set(stops)
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node not in ancestors:
            ancestors.add(node)
            if node not in ends:
                waiting += node.all_input_nodes
    return ancestors
