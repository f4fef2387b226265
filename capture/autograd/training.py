"""The autograd stage: a captured call becomes a forward and a backward graph."""

from __future__ import annotations

from longhand.capture.autograd.carried import differentiated_names, refuse_unsound
from longhand.capture.autograd.joint import differentiate
from longhand.capture.autograd.kept.partition import partition
from longhand.capture.autograd.kept.weights_again import remark_on_weights
from longhand.capture.autograd.shared_results import computes_nothing, with_bases, with_detached
from longhand.capture.autograd.split import split
from longhand.capture.autograd.sums.added_products import add_products
from longhand.capture.autograd.sums.joined_slices import join_slices
from longhand.capture.graph import CapturedGraph, TrainingGraphs
from longhand.capture.trace_isolation import own_types
from longhand.errors import CaptureError
from longhand.options import Target


def ready_to_train(captured: CapturedGraph) -> CapturedGraph:
    """The call with what autograd says of results that are no tensors of their own."""
    return with_detached(with_bases(captured), differentiated_names(captured))


def train(captured: CapturedGraph, target: Target, *, memory_budget: float = 1.0) -> TrainingGraphs | None:
    """Derives the backward pass of a captured call; None where eager's views of the arguments are all of it.

    Args:
        captured: The call, captured in training mode; its `grad_inputs` say what wants gradients.
        target: What the code is for.
        memory_budget: See `partition`.

    Raises:
        CaptureError: Nothing wants a gradient, or a case where a backward made ahead of time would be wrong.
        OptionError: The budget is not between 0 and 1.
    """
    carrying = differentiated_names(captured)
    if computes_nothing(captured) and any(output.value in carrying for output in captured.outputs):
        refuse_unsound(captured)
        return None
    with own_types():
        joint = differentiate(captured, target)
        join_slices(joint.graph)
        add_products(joint.graph)
    if not joint.gradients:
        raise CaptureError(
            f"No result of {captured.name} depends on anything that requires grad.",
            hint="Call requires_grad_() on what is to be trained, or generate without --train.",
        )
    graphs = split(partition(joint, memory_budget=memory_budget), target)
    remark_on_weights(graphs.forward.graph)
    return graphs
