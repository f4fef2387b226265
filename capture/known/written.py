"""What a graph's calls write into. A custom op may: it works on a tensor that nobody else reads before it."""

from __future__ import annotations

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private


def written_nodes(graph: fx.Graph) -> frozenset[fx.Node]:
    """The nodes whose content is another one after some call than it was before: arguments that it writes into."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        target = node.target
        if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
            continue
        names = torch_private.writes(target)
        for place, argument in enumerate(target._schema.arguments if names else ()):
            given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
            if argument.name in names:
                found.update(leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, fx.Node))
    return frozenset(found)
