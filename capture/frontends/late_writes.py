"""Writes that gradients flow through leave Dynamo's graph: it returns what is to be written, the caller writes it.

Eager's autograd gives a tensor that is written into a new history, and so its views. A unit cannot: it is one node of
that history. So the graph works on a copy, which is one of its results, and after the call eager's own ``copy_`` writes
it into the input. Histories, views, version counters and eager's refusals are then eager's own.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import fx

from longhand.capture.autograd.carried import written_with_gradients
from longhand.capture.graph import CapturedGraph, InputKind
from longhand.capture.storages import overlapping

_BY_ADDRESS = (
    "as_strided",
    "as_strided_",
    "set_",
    "resize_",
    "resize_as_",
)  # they look at memory, not at elements


def late_writes(
    captured: CapturedGraph, module: fx.GraphModule, example_inputs: Sequence[Any]
) -> tuple[int, ...]:
    """The places of Dynamo's inputs that the call writes into with gradients, if eager can write after the call.

    Nothing where one of them is what eager refuses to write into (a leaf that requires grad), overlaps another input,
    or is looked at by its addresses: such calls run in eager.
    """
    wanted = written_with_gradients(captured)
    given = [entry for entry in captured.inputs if entry.kind is not InputKind.CONSTANT]
    places = tuple(place for place, entry in enumerate(given) if entry.node in wanted)
    tensors = {
        str(place): value for place, value in enumerate(example_inputs) if isinstance(value, torch.Tensor)
    }
    shared = {place for group in overlapping(tensors) for place in group} if places else set()
    for place in places:
        value = example_inputs[place]
        if given[place].kind is InputKind.PARAMETER or str(place) in shared or _is_leaf(value):
            return ()
    if any(getattr(node.target, "__name__", node.target) in _BY_ADDRESS for node in module.graph.nodes):
        return ()
    return places


def _is_leaf(value: torch.Tensor) -> bool:
    """Whether eager refuses to write into it."""
    base = value._base if value._is_view() and value._base is not None else value
    return base.is_leaf and base.requires_grad


def on_copies(
    module: fx.GraphModule, places: Collection[int]
) -> tuple[fx.GraphModule, dict[fx.Node, fx.Node]]:
    """The graph with copies of some of its inputs, which it writes into instead.

    Returns:
        The graph, and for each copy the input.
    """
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    graph.output(graph.graph_copy(module.graph, copies))
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    writes: dict[fx.Node, fx.Node] = {}
    for place in places:
        node = placeholders[place]
        with graph.inserting_after(node):
            copy = graph.call_method("clone", (node,))
        node.replace_all_uses_with(copy, delete_user_cb=lambda user, copy=copy: user is not copy)
        # The same fake tensor: so views of the input are known as views of the copy.
        copy.meta["example_value"] = node.meta.get("example_value")
        writes[copy] = node
    for node in graph.nodes:
        if returns_itself(node):
            node.replace_all_uses_with(node.args[0])
    return fx.GraphModule(module, graph), writes


def returns_itself(node: fx.Node) -> bool:
    """Whether a call is one in place, whose result is the tensor that it writes into: ``x.mul_(2)``, ``x *= 2``."""
    if not node.op.startswith("call_") or not node.args or not isinstance(node.args[0], fx.Node):
        return False
    name = str(getattr(node.target, "__name__", node.target))
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or node.target in _OPERATORS


_OPERATORS = frozenset(
    getattr(operator, name)
    for name in (
        "iadd",
        "iand",
        "ifloordiv",
        "ilshift",
        "imod",
        "imul",
        "ior",
        "ipow",
        "irshift",
        "isub",
        "itruediv",
        "ixor",
    )
)
