"""Writes under ``torch.no_grad()`` that come first: a scale that is clamped, weights that are rescaled.

Eager's autograd takes what comes after for a use of the tensor as it is then. A graph that is differentiated as a whole
has no such thing, so what comes first becomes a graph of its own, which no gradients flow through.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence, Set
from typing import Any

import torch
from torch import fx

from longhand.capture import torch_private
from longhand.capture.bytecode.entry.call_effects import mutates
from longhand.compiled.call_state import GraphFunction

__all__ = ["EarlyWrites", "early_writes"]


@dataclasses.dataclass(frozen=True)
class EarlyWrites:
    """A graph in two, which take the same inputs.

    Attributes:
        first: What is written; it returns nothing.
        rest: All that comes after.
    """

    first: fx.GraphModule
    rest: fx.GraphModule

    def joined(self, first: GraphFunction, rest: GraphFunction) -> GraphFunction:
        """One call after the other. If the second raises, what the first has written stays, as in eager."""

        def run(*inputs: Any) -> Any:
            with torch.no_grad():
                first(*inputs)
            return rest(*inputs)

        return run


def early_writes(module: fx.GraphModule) -> EarlyWrites | None:
    """The graph in two, if it first writes what wants gradients and keeps nothing else of that; None for others."""
    if not torch.is_grad_enabled():
        return None
    placeholders = module.graph.find_nodes(op="placeholder")
    wanting = {
        torch_private.storage_key(fake)
        for node in placeholders
        if isinstance(fake := node.meta.get("example_value"), torch.Tensor)
        and fake.requires_grad
        and fake.is_leaf
    }
    head = _without_gradients(module.graph)
    inside = set(head)
    is_cut = any(_writes(node, wanting) for node in head)
    if not is_cut or any(user not in inside for node in head for user in node.users):
        return None
    return EarlyWrites(_part(module, head, returns=False), _part(module, _rest(module, inside), returns=True))


def _without_gradients(graph: fx.Graph) -> list[fx.Node]:
    """The nodes from the first on that run while no gradients are recorded, up to where they are recorded again."""
    nodes: list[fx.Node] = []
    records, n_last = True, 0
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            continue
        if node.target is torch_private.set_grad_enabled:
            records = bool(node.args[0])
            n_last = len(nodes) if records else n_last
        elif records or node.op == "output":
            break
        nodes.append(node)
    return nodes[:n_last]


def _writes(node: fx.Node, storages: Set[int]) -> bool:
    """Whether a node writes into one of these memories."""
    if not node.op.startswith("call_") or not mutates(node) or not node.args:
        return False
    fake = node.args[0].meta.get("example_value") if isinstance(node.args[0], fx.Node) else None
    return isinstance(fake, torch.Tensor) and torch_private.storage_key(fake) in storages


def _rest(module: fx.GraphModule, inside: set[fx.Node]) -> Sequence[fx.Node]:
    return [node for node in module.graph.nodes if node not in inside and node.op != "placeholder"]


def _part(module: fx.GraphModule, nodes: Sequence[fx.Node], *, returns: bool) -> fx.GraphModule:
    """A graph of some of the nodes, with all inputs."""
    graph = fx.Graph()
    copies = {node: graph.node_copy(node) for node in module.graph.find_nodes(op="placeholder")}
    for node in module.graph.nodes:
        if node.op == "get_attr" and node not in nodes:
            copies[node] = graph.node_copy(node)
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    if not returns:
        graph.output(())
    for node in reversed(graph.find_nodes(op="get_attr")):
        if not node.users:
            graph.erase_node(node)
    made = fx.GraphModule(module, graph)
    made.meta.update(module.meta)
    return made
