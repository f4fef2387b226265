"""Tensors that a Dynamo graph holds and writes into: an optimizer's parameters and state become inputs of the graph.

Dynamo keeps tensors whose address it takes for fixed in the graph itself, and guards that they are the same objects.
For capture, what a graph holds is a constant; what it writes into is none, so such tensors are passed with each call.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

import torch
from torch import fx

from longhand.capture.bytecode.entry.call_effects import mutates
from longhand.capture.frontends.data_attributes import storages_of

_PARAMETER = re.compile(r"param_groups_(\d+)__params___(\d+)$")
_STATE = re.compile(r"state___(\d+)___(\w*[a-z]\w*)$")
_NUMBERED_STATE = re.compile(r"state___(\d+)____(\d+)$")


@dataclasses.dataclass(frozen=True)
class _Source:
    """Where a tensor is found, as Dynamo's sources tell it."""

    name: str


@dataclasses.dataclass(frozen=True)
class _Origin:
    """What Dynamo's placeholders hold."""

    source: _Source


@dataclasses.dataclass(frozen=True)
class Lifted:
    """A graph that is given what it held.

    Attributes:
        module: The graph; its last placeholders are the tensors'.
        tensors: What to pass for them.
    """

    module: fx.GraphModule
    tensors: tuple[torch.Tensor, ...]


def lift_written(module: fx.GraphModule) -> Lifted | None:
    """The graph with the tensors that it holds as inputs, if it writes into any of them; None for other graphs."""
    held = {node: tensor for node in module.graph.nodes if (tensor := _held(module, node)) is not None}
    if not held or not _writes_into(module.graph, held):
        return None
    sources = _sources([str(node.target) for node in held])
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node in placeholders:
        copies[node] = graph.node_copy(node)
    first: dict[str, fx.Node] = {}
    for node in held:
        path = str(node.target)
        if path not in first:
            first[path] = graph.placeholder(node.name)
            first[path].meta = {**node.meta, "grapharg": _Origin(_Source(sources[path]))}
        copies[node] = first[path]
    for node in module.graph.nodes:
        if node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    lifted = fx.GraphModule(module, graph)
    lifted.meta.update(module.meta)
    tensors = {str(node.target): tensor for node, tensor in held.items()}
    return Lifted(lifted, tuple(tensors[path] for path in first))


def _held(module: fx.GraphModule, node: fx.Node) -> torch.Tensor | None:
    if node.op != "get_attr":
        return None
    value: object = module
    for part in str(node.target).split("."):
        value = getattr(value, part, None)
    return value if isinstance(value, torch.Tensor) else None


def _writes_into(graph: fx.Graph, held: Mapping[fx.Node, torch.Tensor]) -> bool:
    """Whether a call writes into one of the tensors, or into what shows its memory."""
    storages = {storage for node in held for storage in storages_of(node)}
    for node in graph.nodes:
        if node.op.startswith("call_") and mutates(node):
            for source in node.all_input_nodes:
                if source in held or not storages.isdisjoint(storages_of(source)):
                    return True
    return False


def _sources(paths: list[str]) -> dict[str, str]:
    """Each tensor's place in the optimizer: ``L['self'].param_groups[0]['params'][3]``, ``L['self'].exp_avgs[3]``.

    Dynamo calls an entry of the state by its key or by the key's number; those that have keys tell which is which.
    """
    keys = list(dict.fromkeys(match[2] for path in paths if (match := _STATE.search(path))))
    sources: dict[str, str] = {}
    for path in paths:
        parameter, state, numbered = (form.search(path) for form in (_PARAMETER, _STATE, _NUMBERED_STATE))
        if parameter:
            sources[path] = f"L['self'].param_groups[{parameter[1]}]['params'][{parameter[2]}]"
        elif state:
            sources[path] = f"L['self'].{state[2]}s[{state[1]}]"
        elif numbered and int(numbered[2]) < len(keys):
            sources[path] = f"L['self'].{keys[int(numbered[2])]}s[{numbered[1]}]"
        else:
            sources[path] = f"L['{path}']"
    return sources
