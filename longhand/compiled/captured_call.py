"""One graph of Dynamo's, captured: what of it becomes a unit, and what is left to do around the unit's call."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture.autograd.carried import carries_gradients, differentiated_names
from longhand.capture.autograd.shared_results import refuse_shared
from longhand.capture.frontends.dynamo import capture_dynamo
from longhand.capture.frontends.late_writes import late_writes, on_copies
from longhand.capture.frontends.result_views import Peeled, peel
from longhand.capture.graph import CapturedGraph, InputKind
from longhand.errors import CaptureError
from longhand.options import Options


@dataclasses.dataclass(frozen=True, eq=False)
class CapturedCall:
    """What a graph of Dynamo's became.

    Attributes:
        graph: What the unit computes.
        module: The same as Dynamo has it.
        options: The unit's: without a backward pass where no gradients can come back.
        outside: Views and writes of the call that eager does after the unit; None where there are none.
    """

    graph: CapturedGraph
    module: fx.GraphModule
    options: Options
    outside: Peeled | None = None


def captured_call(
    graph_module: fx.GraphModule, example_inputs: Sequence[Any], options: Options
) -> CapturedCall:
    """Captures a graph.

    Args:
        graph_module: As Dynamo made it.
        example_inputs: One for each of its placeholders.
        options: The unit's; `train` says whether gradients are recorded.

    Raises:
        CaptureError: It cannot be captured as one sound graph.
    """
    if not options.train:
        return CapturedCall(_captured(graph_module, example_inputs, options), graph_module, options)
    outside = peel(graph_module)
    module = outside.module if outside else graph_module
    graph = _captured(module, example_inputs, options)
    if late := late_writes(graph, graph_module, example_inputs):
        outside = peel(*on_copies(graph_module, late))
        module = outside.module if outside else graph_module
        graph = _captured(module, example_inputs, options)
        given = [entry.node for entry in graph.inputs if entry.kind is not InputKind.CONSTANT]
        graph = dataclasses.replace(graph, rewritten=tuple(given[place] for place in late))
    refuse_shared(graph)  # what can be taken outside was: Dynamo's callers get fresh tensors
    _refuse_lost_gradients(module, graph)
    if not carries_gradients(graph):
        options = dataclasses.replace(options, train=False)
        graph = _captured(module, example_inputs, options)
    return CapturedCall(graph, module, options, outside)


def _captured(module: fx.GraphModule, example_inputs: Sequence[Any], options: Options) -> CapturedGraph:
    return capture_dynamo(module, list(example_inputs), target=options.target, train=options.train)


def _refuse_lost_gradients(graph_module: fx.GraphModule, graph: CapturedGraph) -> None:
    """Raises where a result requires grad in eager, though none flows: a derivative of zero (fill) leaves no trace."""
    carrying = differentiated_names(graph)
    leaves = pytree.tree_leaves(graph_module.graph.output_node().args[0])
    for node, output in zip(leaves, graph.outputs, strict=True):
        value = node.meta.get("example_value") if isinstance(node, fx.Node) else None
        if isinstance(value, torch.Tensor) and value.requires_grad and output.value not in carrying:
            raise CaptureError(
                f"The result {node.name} requires grad, and its derivative is zero everywhere: its gradients are not "
                "computed by kernels."
            )
