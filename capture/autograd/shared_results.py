"""Results of a training call that share an argument's memory: no autograd.Function makes them.

What a Function returns is a tensor of its own to autograd. So a result that is a view of an argument, or that argument
itself, is taken in forward(), outside of the Function, by the user's own views of what the caller gave: it shares
memory and gradients as eager's does. A result that is another one once more is that other one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Set

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


def refuse_views_of_results(captured: CapturedGraph) -> None:
    """Raises where a result is a view of another result: autograd knows no views of what a Function returns."""
    for output in captured.outputs:
        if output.alias is AliasKind.OUTPUT:
            assert isinstance(output.base, int)
            base = captured.outputs[output.base]
            if is_shared(base) or base.value != output.value:
                raise _shares(output)


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
        return dataclasses.replace(output, is_detached=wants and output.value not in carrying)

    return dataclasses.replace(captured, outputs=tuple(map(told, captured.outputs)))


def _shares(output: GraphOutput) -> CaptureError:
    return CaptureError(
        f"The result {output.value} shares memory with {output.base}: in training longhand returns fresh"
        " tensors only.",
        hint="Return a clone of it.",
    )
