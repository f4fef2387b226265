"""A weight that is used several times: each product of its gradient is added to the sum of those before, as one call.

A loop over time uses its weights in each step, and its backward pass makes a gradient of the weight's size in each.
``torch.addmm(total, d_gates.T, state)`` adds one to what is there: no two of them have to lie in memory.
"""

from __future__ import annotations

import torch
from torch import fx

from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter

aten = torch.ops.aten
_TOTALS = (aten.mm.default, aten.addmm.default)


def added_product(
    rewriter: Rewriter, source: fx.Node, total: fx.Node, summand: fx.Node
) -> tuple[Proxy, Proxy] | None:
    """The factors of a summand that is added to a total as it is made; None where they are added elementwise.

    Only to a sum of products, of what the call is given: what gradients of other values are added to, and what is done
    with the sums, is one kernel.

    Args:
        rewriter: Of the graph that they are in.
        source: Whose gradient it is.
        total: What is added up already.
        summand: What comes to it.
    """
    if source.op != "placeholder" or summand.target is not aten.mm.default or total.target not in _TOTALS:
        return None
    ours, theirs = summand.meta["val"], total.meta["val"]
    if summand.users or (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
        return None
    left, right = summand.all_input_nodes[0], summand.all_input_nodes[-1]
    return rewriter.fresh(left, left.meta["val"]), rewriter.fresh(right, right.meta["val"])
