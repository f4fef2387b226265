"""Constants that the code writes out with equal values are one: each layer may make its own ``torch.tensor(16.0)``.

Were they told apart, each layer would read another one, and equal layers would not be equal. A tensor that a module
holds keeps its own name, and so does one that somebody may write into, ask the gradient of or be given as a result.
"""

from __future__ import annotations

import torch
from torch import fx

from longhand.capture.graph import CapturedGraph, GraphInput, InputKind
from longhand.capture.known.unread import leave_out, seen_outside


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
            gone.append(entry)
    return leave_out(captured, gone)


def _written_out(captured: CapturedGraph) -> list[GraphInput]:
    """The constants that are nothing but values to whoever reads them."""
    outside = seen_outside(captured)
    return [
        entry
        for entry in captured.inputs
        if entry.kind is InputKind.CONSTANT
        and "." not in entry.target
        and not {entry.node, entry.target} & outside
        and _is_plain(captured.constants.get(entry.target))
    ]


def _is_plain(value: torch.Tensor | None) -> bool:
    return type(value) is torch.Tensor and value.layout is torch.strided and not value.is_quantized


def _key(value: torch.Tensor) -> object:
    """Equal for tensors that no reader can tell apart: the bits decide, -0 is not 0."""
    flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return value.dtype, value.device, value.shape, value.stride(), flat.numpy().tobytes()
