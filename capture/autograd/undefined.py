"""Where a derivative of the user's returns None, autograd hands on that there is no gradient.

Its own ops pass that on; another derivative of the user's, which it reaches so, is called with zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.own_derivatives import given_op

__all__ = ["Undefined", "tensor_arguments"]


class Undefined:
    """The values that the backward pass reaches without a gradient."""

    def __init__(self) -> None:
        self._nodes: dict[fx.Node, frozenset[int]] = {}  # with the results that the None comes from

    def note(self, node: fx.Node, pairs: Iterable[tuple[Proxy, Proxy | None]], flow: frozenset[int]) -> None:
        """What a call's derivative gives None as the gradient of, and the results that this comes from."""
        if node.target is given_op:
            self._add((source.node for source, gradient in pairs if gradient is None), flow)

    def _add(self, nodes: Iterable[fx.Node], flow: frozenset[int]) -> None:
        for node in nodes:
            self._nodes[node] = self._nodes.get(node, frozenset()) | flow

    def calls(self, node: fx.Node, results: Sequence[Any], sources: Iterable[Any]) -> frozenset[int]:
        """The results for whose sake a call, none of whose results has a gradient, is differentiated with zeros."""
        reached = (self._nodes.get(result.node) for result in results if isinstance(result, Proxy))
        flow = frozenset().union(*(one for one in reached if one is not None))
        if flow and node.target is not given_op:
            self._add((source.node for source in sources if isinstance(source, Proxy)), flow)
            return frozenset()
        return flow


def tensor_arguments(node: fx.Node) -> list[fx.Node]:
    """The nodes among a call's arguments whose values are tensors, in order, each as often as it is given."""
    leaves = pytree.tree_leaves((list(node.args), dict(node.kwargs)))
    return [one for one in leaves if isinstance(one, fx.Node) and isinstance(one.meta["val"], torch.Tensor)]
