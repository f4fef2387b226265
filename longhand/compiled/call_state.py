"""What stands between Dynamo's call and a unit: the state that a unit runs in, and calls that it is not right for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from longhand.capture import torch_private
from longhand.capture.graph import CapturedGraph, InputKind
from longhand.capture.storages import overlapping
from longhand.emit.module.trees import children
from longhand.telling.tally import EagerGraph

GraphFunction = Callable[..., Any]
_REMEMBERED = 64  # calls whose inputs were found to lie apart


def needs_gradients(inputs: Iterable[Any]) -> bool:
    """Whether gradients are recorded and any input requires grad."""
    if not torch.is_grad_enabled():
        return False
    return any(isinstance(value, torch.Tensor) and value.requires_grad for value in inputs)


def unless_gradients(compiled: GraphFunction, eager: EagerGraph) -> GraphFunction:
    """Dynamo's guards know grad mode and requires_grad; a wrong gradient is bad enough to look again in each call."""

    def run(*inputs: Any) -> Any:
        if needs_gradients(inputs):
            return eager("gradients must flow through it", inputs)
        return compiled(*inputs)

    return run


def with_gradients(compiled: GraphFunction) -> GraphFunction:
    """For a graph that is called without gradients and turns them on inside."""

    def run(*inputs: Any) -> Any:
        with torch.enable_grad():
            return compiled(*inputs)

    return run


def without_gradients(compiled: GraphFunction) -> GraphFunction:
    """For a graph that no gradient can come back through, although its inputs require grad."""

    def run(*inputs: Any) -> Any:
        with torch.no_grad():
            return compiled(*inputs)

    return run


def with_own_types(compiled: GraphFunction, device: str) -> GraphFunction:
    """For a graph that autocast was traced into: its casts are there, and its library calls get no others."""

    def run(*inputs: Any) -> Any:
        with torch.autocast(device, enabled=False):
            return compiled(*inputs)

    return run


def unless_odd(compiled: GraphFunction, eager: EagerGraph) -> GraphFunction:
    """A unit refuses tensors whose memory does not hold their elements as they are; Dynamo's guards let them through.

    It does so before it computes anything: the same call may then run in eager. So does a call of forward-mode
    derivatives, whose tangents no kernel knows.
    """

    def run(*inputs: Any) -> Any:
        if torch_private.takes_forward_derivatives():
            with torch_private.without_torch_function():
                return eager("it is part of a forward-mode derivative", inputs)
        try:
            return compiled(*inputs)
        except (TypeError, ValueError):
            if not any(is_odd(value) for value in inputs):
                raise
        # A subclass's own meaning of torch's functions Dynamo traced into: the graph holds what they call.
        with torch_private.without_torch_function():
            return eager("an input's memory does not hold its elements as they are", inputs)

    return run


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def is_odd(value: object) -> bool:
    """Whether it is a tensor that a kernel cannot take: of a class or layout of its own, negated, without memory."""
    if not isinstance(value, torch.Tensor):
        return False
    if type(value) not in _PLAIN or value.layout is not torch.strided or value.is_neg():
        return True
    return value.numel() > 0 and value.data_ptr() == 0


def written_inputs(graph: CapturedGraph) -> tuple[int, ...]:
    """Which of Dynamo's inputs the call writes into."""
    written = {mutation.input_node for mutation in graph.mutations}
    given = [entry for entry in graph.inputs if entry.kind is not InputKind.CONSTANT]
    return tuple(place for place, entry in enumerate(given) if entry.node in written)


def arguments_of(graph: CapturedGraph) -> Callable[[tuple[Any, ...]], list[Any]]:
    """What makes the arguments of a function's unit of Dynamo's inputs: elements of a list are put together again."""
    given = [entry.node for entry in graph.inputs if entry.kind is not InputKind.CONSTANT]
    positions = iter([given.index(leaf) for leaf in graph.argument_leaves if isinstance(leaf, str)])
    specs = children(children(graph.in_spec)[0])
    places: list[int | list[int]] = [
        next(positions) if spec.is_leaf() else [next(positions) for _ in range(spec.num_leaves)]
        for spec in specs
    ]
    return lambda inputs: [
        inputs[place] if isinstance(place, int) else [inputs[one] for one in place] for place in places
    ]


def counting_writes(compiled: GraphFunction, written: tuple[int, ...]) -> GraphFunction:
    """Kernels write memory behind autograd's back; it must know, to refuse a backward that needs the old values."""

    def run(*inputs: Any) -> Any:
        results = compiled(*inputs)
        torch.autograd.graph.increment_version([inputs[place] for place in written])
        return results

    return run


def unless_overlapping(compiled: GraphFunction, eager: EagerGraph, *, fixed_sizes: bool) -> GraphFunction:
    """Kernels that write to inputs are right only for inputs that lie apart, which no guard of Dynamo's looks at.

    Args:
        compiled: Right for inputs that lie apart.
        eager: Right for all.
        fixed_sizes: Whether guards hold all sizes and strides, so that addresses alone tell where inputs lie.
    """
    apart: set[tuple[Any, ...]] = set()  # where inputs lay that do
    place = torch.Tensor.data_ptr if fixed_sizes else _place

    def run(*inputs: Any) -> Any:
        places = tuple(
            [
                place(value)
                for value in inputs
                if isinstance(value, torch.Tensor) and value.layout is torch.strided
            ]
        )
        if places in apart:
            return compiled(*inputs)
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        if overlapping({str(number): value for number, value in enumerate(tensors)}):
            return eager("its inputs overlap in memory, and it writes to one", inputs)
        if len(apart) >= _REMEMBERED:
            apart.clear()
        apart.add(places)
        return compiled(*inputs)

    return run


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.stride()
