"""Constants that the code writes out with equal values are one: each layer may make its own ``torch.tensor(16.0)``.

Were they told apart, each layer would read another one, and equal layers would not be equal. A tensor that a module
holds keeps its own name, and so does one that somebody may write into, ask the gradient of or be given as a result.
What nobody reads at all is left out, unless the state_dict has it.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import fx

from longhand.capture.graph import CapturedGraph, GraphInput, InputKind


def with_equal_constants_once(captured: CapturedGraph) -> CapturedGraph:
    """The captured graph with one placeholder for constants of equal values; itself where all differ."""
    graph = captured.graph
    placeholders = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    first: dict[object, fx.Node] = {}
    gone: list[GraphInput] = []
    for entry in _written_out(captured):
        node, value = placeholders[entry.node], captured.constants[entry.target]
        same = first.setdefault(_key(value), node)
        if same is not node:
            node.replace_all_uses_with(same)
            graph.erase_node(node)
            gone.append(entry)
    if not gone:
        return captured
    targets = {entry.target for entry in gone}
    return dataclasses.replace(
        captured,
        inputs=tuple(entry for entry in captured.inputs if entry not in gone),
        constants={target: value for target, value in captured.constants.items() if target not in targets},
    )


def without_unread_values(captured: CapturedGraph) -> CapturedGraph:
    """The captured graph without constants, and buffers that no state_dict holds, whose values nobody reads."""
    placeholders = {node.name: node for node in captured.graph.nodes if node.op == "placeholder"}
    outside = _seen_outside(captured)
    unread = [
        entry
        for entry in captured.inputs
        if (entry.kind is InputKind.CONSTANT or (entry.kind is InputKind.BUFFER and not entry.persistent))
        and not placeholders[entry.node].users
        and not {entry.node, entry.target} & outside
    ]
    if not unread:
        return captured
    for entry in unread:
        captured.graph.erase_node(placeholders[entry.node])
    targets = {entry.target for entry in unread}
    return dataclasses.replace(
        captured,
        inputs=tuple(entry for entry in captured.inputs if entry not in unread),
        constants={target: value for target, value in captured.constants.items() if target not in targets},
    )


def _seen_outside(captured: CapturedGraph) -> set[str]:
    """Nodes and targets that somebody may write into, ask the gradient of or be given as a result."""
    seen_outside = {mutation.input_node for mutation in captured.mutations} | set(captured.grad_inputs)
    seen_outside.update(name for group in (*captured.tied, *captured.shared_storage) for name in group)
    for node in captured.graph.nodes:
        if node.op == "output":
            seen_outside.update(argument.name for argument in node.all_input_nodes)
    seen_outside.update(result.base for result in captured.outputs if isinstance(result.base, str))
    return seen_outside


def _written_out(captured: CapturedGraph) -> list[GraphInput]:
    """The constants that are nothing but values to whoever reads them."""
    seen_outside = _seen_outside(captured)
    return [
        entry
        for entry in captured.inputs
        if entry.kind is InputKind.CONSTANT
        and "." not in entry.target
        and not {entry.node, entry.target} & seen_outside
        and _is_plain(captured.constants.get(entry.target))
    ]


def _is_plain(value: torch.Tensor | None) -> bool:
    return type(value) is torch.Tensor and value.layout is torch.strided and not value.is_quantized


def _key(value: torch.Tensor) -> object:
    """Equal for tensors that no reader can tell apart: the bits decide, -0 is not 0."""
    flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return value.dtype, value.device, value.shape, value.stride(), flat.numpy().tobytes()
