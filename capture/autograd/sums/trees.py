"""Sums of several gradients in a joint graph: trees of ``add`` whose inner sums nothing else reads."""

from __future__ import annotations

import torch
from torch import fx

aten = torch.ops.aten


def is_sum(node: object) -> bool:
    """Whether a node adds two tensors of its own shape and dtype."""
    return (
        isinstance(node, fx.Node)
        and node.target is aten.add.Tensor
        and not node.kwargs
        and all(isinstance(side, fx.Node) and _is_like(side, node) for side in node.args)
    )


def is_inner(node: fx.Node, user: fx.Node) -> bool:
    """Whether a sum is part of a larger one, which alone reads it."""
    return is_sum(user) and len(node.users) == 1 and list(user.args).count(node) == 1


def outermost_sums(graph: fx.Graph) -> list[fx.Node]:
    """The roots of the trees, in the graph's order."""
    return [
        node for node in graph.nodes if is_sum(node) and not any(is_inner(node, user) for user in node.users)
    ]


def summands(node: fx.Node) -> list[fx.Node]:
    """What is added up, in order; sums that nothing else reads are taken apart."""
    found: list[fx.Node] = []
    for side in node.args:
        assert isinstance(side, fx.Node)
        found += summands(side) if is_sum(side) and is_inner(side, node) else [side]
    return found


def sums_inside(node: fx.Node) -> list[fx.Node]:
    """The sums that `summands` takes apart, each before those in it."""
    sums: list[fx.Node] = []
    for side in node.all_input_nodes:
        if is_sum(side) and is_inner(side, node):
            sums += [side, *sums_inside(side)]
    return sums


def _is_like(one: fx.Node, other: fx.Node) -> bool:
    mine, theirs = one.meta["val"], other.meta["val"]
    return (
        isinstance(mine, torch.Tensor)
        and isinstance(theirs, torch.Tensor)
        and (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
    )
