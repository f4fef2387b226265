"""A captured graph and its backward pass as one graph."""

from __future__ import annotations

import dataclasses

import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private
from longhand.capture.graph import CapturedGraph, Provenance
from longhand.errors import CaptureError

__all__ = ["Joint", "fake_mode_of_graph", "place_of"]


@dataclasses.dataclass(frozen=True, eq=False)
class Joint:
    """A captured graph with its backward pass in one graph.

    Attributes:
        captured: What was differentiated.
        graph: Placeholders of `captured` under their names, then one for the gradient of each differentiable result
            (``d_loss``); fake values on the CPU. Nodes have ``meta["word"]``, the name that they want.
        node_of: For each node of the captured graph that has a value: its node here.
        tangents: (position among `captured.outputs`, placeholder of its gradient).
        gradients: (placeholder in `captured`, node of its gradient), in the order of `captured.grad_inputs`; those
            that no result depends on are left out.
        flows: For each of these the positions among `tangents` that its gradient comes from: where the caller
            differentiates none of those results, it has none.
    """

    captured: CapturedGraph
    graph: fx.Graph
    node_of: dict[str, fx.Node]
    tangents: tuple[tuple[int, fx.Node], ...]
    gradients: tuple[tuple[str, fx.Node], ...]
    flows: tuple[frozenset[int], ...]


def fake_mode_of_graph(graph: fx.Graph) -> torch_private.FakeTensorMode:
    """The mode of a graph's fake values."""
    for node in graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch_private.FakeTensor):
                return torch_private.fake_mode_of(value)
    raise CaptureError("The call has no tensors: there is nothing to differentiate.")


def place_of(node: fx.Node) -> str | None:
    """Where a node's statement stands."""
    origin: Provenance = Provenance.of(node)
    return f"{origin.file}:{origin.line}" if origin.file else None
