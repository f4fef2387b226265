"""Which values carry gradients, and calls whose backward pass made ahead of time would be wrong."""

from __future__ import annotations

from torch import fx

from longhand.capture.autograd.shared_results import is_shared
from longhand.capture.devices import host_nodes
from longhand.capture.functionalize.gradient_tracking import can_carry, stops
from longhand.capture.graph import CapturedGraph
from longhand.errors import CaptureError


def carries_gradients(captured: CapturedGraph) -> bool:
    """Whether any gradient can come back through the call: by its results or by what it writes."""
    carrying = {node.name for node in _differentiated(captured)}
    written = {name for entry in captured.mutations for name in (entry.input_node, entry.value_node)}
    return any(output.value in carrying for output in captured.outputs) or bool(written & carrying)


def written_with_gradients(captured: CapturedGraph) -> frozenset[str]:
    """The placeholders into which the call writes, where they require grad or would from then on."""
    carrying = {node.name for node in _differentiated(captured)}
    return frozenset(
        mutation.input_node
        for mutation in captured.mutations
        if mutation.input_node in captured.grad_inputs or mutation.value_node in carrying
    )


def refuse_unsound(captured: CapturedGraph) -> None:
    """Raises where a backward pass made ahead of time would be wrong."""
    wanted = set(captured.grad_inputs)
    if captured.symbols:
        raise CaptureError(
            "The call has symbolic sizes, which the backward pass does not know yet.",
            hint="Train with fixed sizes: dynamic=False.",
        )
    written = {mutation.input_node for mutation in captured.mutations}
    for group in captured.shared_storage:
        if written & set(group):
            raise CaptureError(f"{', '.join(group)} share memory, and the call writes into it.")
    carrying = differentiated_names(captured)
    for mutation in captured.mutations:
        if mutation.input_node in wanted:
            raise CaptureError(
                f"The call writes into {mutation.input_node}, which requires grad.",
                hint="Write into a copy of it.",
            )
        if mutation.value_node in carrying:
            raise CaptureError(
                f"The call writes something with gradients into {mutation.input_node}: from then on it would require"
                " grad.",
                hint="Write a detached value, or return it instead.",
            )
    if moved := relevant(captured) & host_nodes(captured.graph):
        raise CaptureError(
            f"Gradients flow through tensors on the CPU ({min(node.name for node in moved)}) in a call for a GPU.",
            hint="Move them to the GPU once, outside the call.",
        )


def differentiated_names(captured: CapturedGraph) -> frozenset[str]:
    """Of the nodes that depend on what wants a gradient."""
    return frozenset(node.name for node in _differentiated(captured))


def _differentiated(captured: CapturedGraph) -> set[fx.Node]:
    """Nodes that depend on what wants a gradient."""
    requires: set[fx.Node] = set()
    for node in captured.graph.nodes:
        if node.op == "placeholder":
            if node.name in captured.grad_inputs:
                requires.add(node)
        elif (
            node.op == "call_function"
            and any(source in requires for source in node.all_input_nodes)
            and can_carry(node.meta["val"])
            and not stops(node)
        ):
            requires.add(node)
    return requires


def relevant(captured: CapturedGraph) -> set[fx.Node]:
    """Nodes through which gradients flow: they depend on what wants one, and a result of its own depends on them."""
    requires = _differentiated(captured)
    own = [output.value for output in captured.outputs if not is_shared(output)]
    results = {value for value in own if isinstance(value, str)}
    relevant_nodes: set[fx.Node] = set()
    waiting = [node for node in captured.graph.nodes if node.name in results and node in requires]
    while waiting:
        node = waiting.pop()
        if node not in relevant_nodes:
            relevant_nodes.add(node)
            waiting += [source for source in node.all_input_nodes if source in requires]
    return relevant_nodes
