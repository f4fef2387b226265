"""Attention that is computed again in the forward pass, because the backward reads its weights: the text says so.

Where no kernel of a library differentiates a call of attention, its derivative needs the weights, which the call itself
does not return.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import fx

from longhand.capture.graph import Provenance

aten = torch.ops.aten

_REMARK = "again, for the backward pass: the weights, which the call of attention does not return"
_PRODUCTS = frozenset([aten.bmm.default, aten.baddbmm.default, aten.matmul.default])


def remark_on_weights(graph: fx.Graph) -> None:
    """Tells the product from which weights are made that nothing but the backward pass reads.

    Args:
        graph: Of a forward pass; its provenance is changed.
    """
    for node in graph.nodes:
        # What only attention that is taken apart is made of; any other softmax is the user's own.
        if node.target is aten._safe_softmax.default and all(user.op == "output" for user in node.users):
            product = _product_before(node)
            if product is not None:
                told: Provenance = Provenance.of(product)
                product.meta["provenance"] = dataclasses.replace(told, remark=_REMARK)


def _product_before(node: fx.Node) -> fx.Node | None:
    """The scores: what the weights are made of, through a mask and views."""
    before = node.args[0] if node.args else None
    while isinstance(before, fx.Node) and before.target not in _PRODUCTS:
        before = before.args[0] if before.args and len(before.users) == 1 else None
    return before if isinstance(before, fx.Node) else None
