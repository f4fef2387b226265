"""What a call returns: each result's node, whose memory it shares, and a clone where fresh memory needs one."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from longhand.capture.functionalize.functional_proxies import Number, Proxy
from longhand.capture.functionalize.functionalize import Rewriter
from longhand.capture.functionalize.view_nodes import seen
from longhand.capture.functionalize.views import memory_order_of
from longhand.capture.graph import AliasKind

aten = torch.ops.aten


def results_of(
    rewriter: Rewriter, values: list[Any], mutated: list[Proxy]
) -> list[tuple[Any, AliasKind, Any]]:
    """(node or constant, alias, base) for each result; a clone where fresh memory needs one."""
    outputs: list[tuple[Any, AliasKind, Any]] = []
    shown: dict[int, int] = {}  # memory -> the first result that shows it
    taken = {seen(rewriter.read(handle)) for handle in mutated}
    for position, value in enumerate(values):
        if isinstance(value, Number):
            outputs.append((value.node, AliasKind.FRESH, None))
        elif not isinstance(value, Proxy):
            outputs.append((value, AliasKind.FRESH, None))
        elif value.memory.placeholder is not None:
            outputs.append((rewriter.read(value), AliasKind.INPUT, value.memory.placeholder))
        elif id(value.memory) in shown:
            outputs.append((rewriter.read(value), AliasKind.OUTPUT, shown[id(value.memory)]))
        else:
            node = rewriter.read(value)
            if seen(node).op == "placeholder" or seen(node) in taken or _lies_otherwise(node, value.fake):
                node = rewriter.emit(aten.clone.default, (node,), value=value.fake)
                node.meta.update({key: _words(value.node)[key] for key in _words(value.node)})
            taken.add(seen(node))
            shown[id(value.memory)] = position
            outputs.append((node, AliasKind.FRESH, None))
    return outputs


def _lies_otherwise(node: fx.Node, eager: torch.Tensor) -> bool:
    """Whether a value is laid out otherwise than eager's: what only lays a value out anew is gone from the graph."""
    ours = node.meta["val"]
    sizes = (*ours.shape, *ours.stride(), *eager.stride())
    if not all(isinstance(size, int) for size in sizes):
        return False
    if memory_order_of(eager) is None:
        return False  # it overlaps, or has gaps
    steps = zip(eager.shape, ours.stride(), eager.stride(), strict=True)
    return any(size > 1 and step != wanted for size, step, wanted in steps)


def _words(node: fx.Node) -> dict[str, Any]:
    return {key: node.meta[key] for key in ("stack_trace", "nn_module_stack") if key in node.meta}
