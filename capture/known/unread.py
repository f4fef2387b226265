"""What a graph holds and nobody reads is left out of it: constants, and buffers that no state_dict has."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from longhand.capture.graph import CapturedGraph, GraphInput, InputKind


def without_unread_values(captured: CapturedGraph) -> CapturedGraph:
    """The captured graph without them; itself where all are read."""
    read = {node.name for node in captured.graph.nodes if node.users} | seen_outside(captured)
    unread = [
        entry
        for entry in captured.inputs
        if (entry.kind is InputKind.CONSTANT or (entry.kind is InputKind.BUFFER and not entry.persistent))
        and read.isdisjoint((entry.node, entry.target))
    ]
    return leave_out(captured, unread)


def seen_outside(captured: CapturedGraph) -> set[str]:
    """Nodes and targets that somebody may write into, ask the gradient of or be given as a result."""
    names = {mutation.input_node for mutation in captured.mutations} | set(captured.grad_inputs)
    names.update(name for group in (*captured.tied, *captured.shared_storage) for name in group)
    for node in captured.graph.nodes:
        if node.op == "output":
            names.update(argument.name for argument in node.all_input_nodes)
    names.update(result.base for result in captured.outputs if isinstance(result.base, str))
    return names


def leave_out(captured: CapturedGraph, gone: Collection[GraphInput]) -> CapturedGraph:
    """The captured graph without inputs that no node reads, and without their values."""
    if not gone:
        return captured
    nodes, targets = {entry.node for entry in gone}, {entry.target for entry in gone}
    for node in captured.graph.find_nodes(op="placeholder"):
        if node.name in nodes:
            captured.graph.erase_node(node)
    return dataclasses.replace(
        captured,
        inputs=tuple(entry for entry in captured.inputs if entry not in gone),
        constants={target: value for target, value in captured.constants.items() if target not in targets},
    )
