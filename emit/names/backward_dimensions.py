"""Words for the dimensions of a backward pass: those that the forward pass has for what it saved."""

from __future__ import annotations

import torch
from torch import fx

from longhand.capture.graph import CapturedGraph, TrainingGraphs
from longhand.emit.names.buffer_names import BufferWords
from longhand.emit.names.dimension_names import DimWords
from longhand.emit.names.dimension_propagation import PRODUCT, Words
from longhand.lower.ir import Program


def backward_dims(
    training: TrainingGraphs, forward: BufferWords, backward: BufferWords, program: Program
) -> DimWords:
    """The words of a backward graph's dimensions.

    Args:
        training: Both graphs, as they were captured.
        forward: Words for the forward's values.
        backward: Words for the backward's.
        program: The backward graph, lowered.
    """
    graph = program.graph
    dims = DimWords(training.forward, {}, layers=forward)
    given: dict[str, Words] = {}
    for entry in training.inputs:
        value = backward.nodes[entry.node].meta["val"]
        place = entry.source
        source = training.forward.outputs[place].value if isinstance(place, int) else place
        if isinstance(value, torch.Tensor) and isinstance(source, str) and entry.node not in graph.paths:
            node = forward.nodes[source]
            of = forward.nodes.get(forward.provenance(source).gradient_of, node)
            given[entry.node] = _flattened(of, value, dims)
    return DimWords(graph, program.buffers, given, _known(graph, forward, backward, dims))


def _known(
    graph: CapturedGraph, forward: BufferWords, backward: BufferWords, dims: DimWords
) -> dict[str, Words]:
    """Words for gradients, which are shaped as what they are the gradient of, and for what is computed again."""
    found: dict[str, Words] = {}
    for node in graph.graph.nodes:
        origin = backward.provenance(node.name)
        source = forward.nodes.get(origin.gradient_of or node.name)
        value = node.meta.get("val")
        if node.op != "call_function" or source is None or not isinstance(value, torch.Tensor):
            continue
        is_again = not origin.differentiates and source.target is node.target
        if origin.gradient_of or is_again:
            found[node.name] = _flattened(source, value, dims)
    return found


def _flattened(node: fx.Node, value: torch.Tensor, dims: DimWords) -> Words:
    """The words of a node's dimensions for a value of the same elements: all but the last dimension may be one."""
    shape = node.meta["val"].shape
    words = dims.of(node.name, len(shape))
    if shape == value.shape:
        return words
    if value.ndim == 2 and len(shape) > 2 and shape[-1] == value.shape[1] and all(words[:-1]):
        return PRODUCT.join(word for word in words[:-1] if word), words[-1]
    return (None,) * value.ndim
