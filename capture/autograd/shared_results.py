"""Results of a training call that share an argument's memory: no autograd.Function makes them.

What a Function returns is a tensor of its own to autograd. So a result that is a view of an argument, or that argument
itself, is taken in forward(), outside of the Function, by the user's own views of what the caller gave: it shares
memory and gradients as eager's does. Likewise results that are views of one another, or of one value that the call
computes: the Function returns that value, and forward() takes the views.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Set

import torch
from torch import fx

from longhand.capture.functionalize.decompositions import COMPOSITE_VIEWS, packet_name
from longhand.capture.functionalize.view_nodes import is_view
from longhand.capture.graph import AliasKind, CapturedGraph, GraphOutput, InputKind, Literal
from longhand.errors import CaptureError


def is_shared(output: GraphOutput) -> bool:
    """Whether a result is no tensor of its own."""
    return output.alias is not AliasKind.FRESH


def refuse_shared(captured: CapturedGraph) -> None:
    """Raises where any result shares memory: for calls whose results are fresh tensors only."""
    for output in captured.outputs:
        if is_shared(output):
            raise _shares(output)


def with_bases(captured: CapturedGraph) -> CapturedGraph:
    """The call with what several results are views of as an output of its own.

    The Function returns it once, and forward() takes the results of it, as the user's code does: so they share its
    memory, and their gradients come together in it.
    """
    nodes = {node.name: node for node in captured.graph.nodes}
    outputs = list(captured.outputs)
    for place, output in enumerate(captured.outputs):
        parts = [place, *(n for n, other in enumerate(captured.outputs) if _is_view_of(other, place))]
        if is_shared(output) or not isinstance(output.value, str) or len(parts) == 1:
            continue
        base = _root(nodes[output.value]).name
        if base == output.value:  # the others are views of this one
            continue
        for part in parts:
            outputs[part] = dataclasses.replace(
                captured.outputs[part], alias=AliasKind.OUTPUT, base=len(outputs)
            )
        outputs.append(GraphOutput(base))
    n_bases = len(outputs) - len(captured.outputs)
    return dataclasses.replace(captured, outputs=tuple(outputs), n_bases=n_bases)


def _root(node: fx.Node) -> fx.Node:
    """What a value is a view of, in the end; gradients may be stopped on the way."""
    while (source := _looked_at(node)) is not None:
        node = source
    return node


def _looked_at(node: fx.Node) -> fx.Node | None:
    """What a call looks at; None where it has memory of its own."""
    if node.target is operator.getitem and isinstance(node.args[0], fx.Node):
        return _looked_at(node.args[0])
    if not isinstance(node.target, torch._ops.OpOverload) or len(node.all_input_nodes) != 1:
        return None
    name, (source,) = packet_name(node.target), node.all_input_nodes
    if name not in {"detach", *COMPOSITE_VIEWS} - _COPYING and not is_view(node):
        return None
    return None if name == "reshape" and _copies(source.meta["val"], node.meta["val"]) else source


_COPYING = frozenset({"resolve_conj", "resolve_neg"})  # some of what they are called on


def _copies(given: torch.Tensor, made: torch.Tensor) -> bool:
    """Whether a reshape has to copy, by how eager's tensor lies in memory."""
    try:
        torch.empty_strided(given.shape, given.stride(), device="meta").view(made.shape)
    except RuntimeError:
        return True
    return False


def _is_view_of(output: GraphOutput, place: int) -> bool:
    return output.alias is AliasKind.OUTPUT and output.base == place


def computes_nothing(captured: CapturedGraph) -> bool:
    """Whether a function of tensors only takes views of its arguments: then eager's views carry all gradients."""
    arguments = (InputKind.ARGUMENT, InputKind.SIZE)
    return (
        any(output.alias is AliasKind.INPUT for output in captured.outputs)
        and all(is_shared(output) or isinstance(output.value, Literal) for output in captured.outputs)
        and all(entry.kind in arguments for entry in captured.inputs)
        and not captured.mutations
    )


def with_detached(captured: CapturedGraph, carrying: Set[str]) -> CapturedGraph:
    """The call with those results told that share the memory of what requires grad, and carry none (`detach`).

    Args:
        captured: The call.
        carrying: The nodes that depend on what wants a gradient.
    """

    def told(output: GraphOutput) -> GraphOutput:
        wants = output.alias is AliasKind.INPUT and output.base in captured.grad_inputs
        if output.alias is AliasKind.OUTPUT:
            assert isinstance(output.base, int)
            wants = captured.outputs[output.base].value in carrying
        return dataclasses.replace(output, is_detached=wants and output.value not in carrying)

    return dataclasses.replace(captured, outputs=tuple(map(told, captured.outputs)))


def _shares(output: GraphOutput) -> CaptureError:
    return CaptureError(
        f"The result {output.value} shares memory with {output.base}: in training longhand returns fresh"
        " tensors only.",
        hint="Return a clone of it.",
    )
