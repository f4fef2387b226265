"""A memo: what a call keeps on its model for later calls, and could as well compute each time.

timm keeps the biases of its attention by device, many a rotary embedding its cosines. The call writes tensors to the
model, so that it is not the same before and after; but where they depend on nothing that the call was given, are not
drawn, and nothing writes into them, a graph that computes them each time does what the call does. Whether a second call
does what the first one did is asked of the model itself: `longhand.capture.frontends.first_call`.
"""

from __future__ import annotations

import torch
from torch import fx

from longhand.capture.bytecode.entry.call_effects import draws, mutates
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.tracked import Const, Dict, Obj, SetOf, Tensor, Value

__all__ = ["keeps_only_memos"]

_MODEL = "L['self']"


def keeps_only_memos(trace: Trace) -> bool:
    """Whether all that a call of a module writes to Python objects are memos, and the numbers that go with them."""
    if any(names for _, names in trace.globals_written.values()):
        return False
    written: list[Value] = []
    for owner in trace.changed:
        added = _added(owner)
        if added is None:
            return False
        written += added
    for owner, attributes in trace.attributes.items():
        if not isinstance(owner, Obj) or owner.source is None:
            continue  # made by the call
        if not owner.source.name.startswith(_MODEL):
            return False
        written += attributes.values()
    tensors = [value.node for value in written if isinstance(value, Tensor)]
    others = [value for value in written if not isinstance(value, Tensor)]
    if not tensors or not all(isinstance(value, Const) for value in others):
        return False
    return _depend_on_the_model_alone(trace, tensors) and not _is_written_into(trace.graph, tensors)


def _added(owner: Value) -> list[Value] | None:
    """What a dict of the model holds that it did not hold before; None where anything else is changed."""
    if owner.source is None or not owner.source.name.startswith(_MODEL):
        return None
    if isinstance(owner, SetOf) and owner.source.step.endswith("._non_persistent_buffers_set"):
        return []  # the bookkeeping of register_buffer
    if not isinstance(owner, Dict) or not isinstance(owner.real, dict):
        return None
    added = []
    for key, before in owner.real.items():
        value = owner.items.get(key)
        if value is None:
            return None
        if before is None:
            added.append(value)
        elif value.source is None or not value.source.name.startswith(owner.source.name):
            return None
    return added + [value for key, value in owner.items.items() if key not in owner.real]


def _depend_on_the_model_alone(trace: Trace, nodes: list[fx.Node]) -> bool:
    """Whether nodes are computed from parameters, buffers and constants, and drawn from no generator."""
    given = {
        tensor.node
        for tensor in trace.inputs
        if tensor.source is None or not tensor.source.name.startswith(_MODEL)
    }
    seen: set[fx.Node] = set()
    left = list(nodes)
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in given or (node.op.startswith("call") and draws(node)):
            return False
        left += node.all_input_nodes
    return True


def _is_written_into(graph: fx.Graph, memos: list[fx.Node]) -> bool:
    """Whether any call writes into the memory of a memo."""
    kept = {_memory(node) for node in memos}
    return any(
        mutates(node) and any(_memory(argument) in kept for argument in node.all_input_nodes)
        for node in graph.nodes
        if node.op.startswith("call")
    )


def _memory(node: fx.Node) -> int | None:
    value = node.meta.get("example_value")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None
