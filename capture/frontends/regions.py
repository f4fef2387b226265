"""Regions that torch traces as calls of a sub-graph: `torch.no_grad()` blocks and autocast blocks, put back in line."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private
from longhand.capture.functionalize.decompositions import decomposition_table
from longhand.capture.functionalize.functional_graph import CannotFunctionalize
from longhand.capture.functionalize.functional_proxies import Number, Proxy
from longhand.capture.functionalize.functionalize import Rewriter


def inline_region(rewriter: Rewriter, node: fx.Node, known: dict[fx.Node, Any]) -> Any:
    """The results of the call of a region (a higher-order operator), inlined.

    Raises:
        CannotFunctionalize: It is control flow on tensors.
    """
    target: Any = node.target
    args: Any = fx.node.map_aggregate(
        node.args, lambda leaf: known[leaf] if isinstance(leaf, fx.Node) else leaf
    )
    if target.name() == "wrap_with_set_grad_enabled":
        enabled, module, *operands = args
        if rewriter.gradients is None:
            return rewriter.inline(module, operands, traced_values=True)
        with rewriter.gradients.stopped(not enabled):
            results = rewriter.inline(module, operands, traced_values=True)
        return results if enabled else rewriter.without_gradients(results)
    if target.name() == "wrap_with_autocast":
        device, dtype, enabled, cache, module, *operands = args
        with torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=cache):
            written_out = _trace_below_autocast(rewriter, module, operands)
        # Outside: a part that turned autocast off computes what its own arguments are.
        return rewriter.inline(written_out, operands)
    raise CannotFunctionalize(
        f"`{target.name()}` runs code that depends on tensors, which cannot be captured",
        "Use torch.where, or a Python loop of fixed length.",
    )


def _trace_below_autocast(rewriter: Rewriter, module: fx.GraphModule, operands: list[Any]) -> fx.GraphModule:
    """The region traced again with autocast's casts as explicit calls."""
    leaves = [leaf for leaf in pytree.tree_leaves(operands) if isinstance(leaf, Proxy | Number)]
    values = [leaf.fake if isinstance(leaf, Proxy) else leaf.value for leaf in leaves]
    with rewriter.fake_mode, torch.no_grad():
        return torch_private.make_fx(fx.Interpreter(module).run, decomposition_table=decomposition_table())(
            *values
        )
