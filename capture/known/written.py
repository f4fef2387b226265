"""What a graph's calls write into. A custom op may: it works on a tensor that nobody else reads before it."""

from __future__ import annotations

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private


def written_nodes(graph: fx.Graph) -> frozenset[fx.Node]:
    """The nodes whose content is another one after some call than it was before: arguments that it writes into."""
    return frozenset(node for call in graph.nodes for node in _written_by(call))


def writes_into(call: fx.Node, node: fx.Node) -> bool:
    """Whether a call writes into an argument."""
    return node in _written_by(call)


def _written_by(call: fx.Node) -> set[fx.Node]:
    target = call.target
    if call.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return set()
    names = torch_private.writes(target)
    written: set[fx.Node] = set()
    for place, argument in enumerate(target._schema.arguments if names else ()):
        given = call.args[place] if place < len(call.args) else call.kwargs.get(argument.name)
        if argument.name in names:
            written.update(leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, fx.Node))
    return written
