"""Which results' gradients the gradient of a value comes from.

A value that no gradient comes to has none, neither have the parameters that it is made of: so a parameter's gradient is
None where the caller differentiates none of the results that it has to do with. What was overwritten has one of zeros.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import fx

from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter

__all__ = ["Flows"]


class Flows:
    """By node of the joint graph: positions among the tangents that a gradient comes from, be it zeros."""

    def __init__(self) -> None:
        self._of: dict[fx.Node, frozenset[int]] = {}
        self._copies: list[fx.Node] = []

    def add(self, node: fx.Node, tangents: Iterable[int]) -> None:
        """A gradient comes to a value."""
        self._of[node] = self._of.get(node, frozenset()).union(tangents)

    def of(self, *nodes: fx.Node) -> frozenset[int]:
        """What the gradients of some values come from, together; nothing where none has one."""
        return frozenset().union(*(self._of.get(node, ()) for node in nodes))

    def copy_of(self, rewriter: Rewriter, value: Proxy) -> fx.Node:
        """A value under a node of its own, until `without_copies`."""
        node = rewriter.emit(torch.ops.aten.alias.default, (value,), value=value.fake)
        self._copies.append(node)
        return node

    def without_copies(self, graph: fx.Graph) -> dict[fx.Node, fx.Node]:
        """Takes them out of the graph again; what each of them was."""
        originals: dict[fx.Node, fx.Node] = {}
        for node in self._copies:  # a copy of a copy comes after that one
            (originals[node],) = node.all_input_nodes
            node.replace_all_uses_with(originals[node])
            graph.erase_node(node)
        return originals
