"""Writes that autograd does not see and that come first: a scale that is clamped, weights that are rescaled.

Eager's autograd takes what comes after for a use of the tensor as it is then. A graph that is differentiated as a whole
has no such thing, so what comes first becomes a graph of its own, which no gradients flow through: what stands there
under ``torch.no_grad()``, and what may as well stand there, since nothing reads or writes that memory before. That is
only taken of what leaves the same when it is done again: a call that raises in between has done it all the same.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence, Set
from typing import Any

import torch
from torch import fx

from longhand.capture import torch_private
from longhand.capture.bytecode.entry.call_effects import mutates, name_of
from longhand.capture.frontends.data_attributes import is_data, storages_of
from longhand.capture.frontends.dynamo_run import records_gradients
from longhand.compiled.call_state import GraphFunction

__all__ = ["EarlyWrites", "early_writes"]

_DONE_AGAIN = frozenset(
    ["abs_", "clamp_", "clamp_max_", "clamp_min_", "clip_", "fill_", "nan_to_num_", "relu_", "zero_"]
)


@dataclasses.dataclass(frozen=True)
class EarlyWrites:
    """A graph in two, which take the same inputs.

    Attributes:
        first: What is written; it returns nothing.
        rest: All that comes after.
        is_moved: Whether eager does some of `rest` before: right only where what is written is one input's memory.
    """

    first: fx.GraphModule
    rest: fx.GraphModule
    is_moved: bool = False

    def joined(self, first: GraphFunction, rest: GraphFunction) -> GraphFunction:
        """One call after the other. If the second raises, what the first has written stays, as in eager."""

        def run(*inputs: Any) -> Any:
            with torch.no_grad():
                first(*inputs)
            return rest(*inputs)

        return run


def early_writes(module: fx.GraphModule) -> EarlyWrites | None:
    """The graph in two, if it first writes what wants gradients and keeps nothing else of that; None for others."""
    if not torch.is_grad_enabled() or not records_gradients(module):
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
    is_moved = not is_cut or any(user not in inside for node in head for user in node.users)
    if is_moved:
        head = _first_of_their_memory(module.graph, wanting)
    if not head:
        return None
    rest = _rest(module, set(head))
    return EarlyWrites(_part(module, head, returns=False), _part(module, rest, returns=True), is_moved)


def _first_of_their_memory(graph: fx.Graph, wanting: Set[int]) -> list[fx.Node]:
    """The writes by numbers alone that autograd does not see, into memory that no call before has to do with.

    Args:
        graph: With gradients recorded where it begins.
        wanting: The memory that wants gradients.
    """
    nodes: list[fx.Node] = []
    owners = Counter(key for node in graph.find_nodes(op="placeholder") for key in storages_of(node))
    touched = {key for node in graph.find_nodes(op="get_attr") for key in storages_of(node)}
    records = True
    for node in graph.nodes:
        if not node.op.startswith("call_"):
            continue
        if node.target is torch_private.set_grad_enabled:
            records = bool(node.args[0])
        chain = _written_by_numbers(node)
        is_unseen = not records or any(is_data(one.target, one.args) for one in chain)
        keys = {key for one in node.all_input_nodes for key in storages_of(one)}
        if (
            chain
            and is_unseen
            and keys
            and all(key in wanting - touched and owners[key] == 1 for key in keys)
        ):
            nodes += chain
        elif node.op != "call_function" or not is_data(node.target, node.args):
            touched |= keys
    return nodes


def _written_by_numbers(node: fx.Node) -> list[fx.Node]:
    """A write that is given nothing but numbers, behind the views of an input that it goes through; else nothing."""
    if name_of(node.target) not in _DONE_AGAIN or node.users or len(node.all_input_nodes) != 1:
        return []
    chain, place = [node], node.all_input_nodes[0]
    while place.op.startswith("call_"):
        if not is_data(place.target, place.args) or len(place.users) != 1:
            return []
        chain.insert(0, place)
        (place,) = place.all_input_nodes
    return chain if place.op == "placeholder" else []


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
    if not returns:
        graph.call_function(torch_private.set_grad_enabled, (False,))
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
