"""What a call returns: each result's node, whose memory it shares, and a clone where fresh memory needs one."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from longhand.capture.functionalize.decompositions import packet_name
from longhand.capture.functionalize.functional_proxies import Handle, Number
from longhand.capture.functionalize.functionalize import Rewriter
from longhand.capture.graph import AliasKind

aten = torch.ops.aten

# Nodes whose result may be memory that is already there.
_VIEWS = frozenset(
    [
        "reshape",
        "permute",
        "transpose",
        "expand",
        "select",
        "slice",
        "unsqueeze",
        "squeeze",
        "split_with_sizes",
        "unbind",
        "diagonal",
        "unfold",
        "view",
        "view_as_complex",
        "view_as_real",
        "real",
        "imag",
        "as_strided",
        "split",
    ]
)


def results_of(
    rewriter: Rewriter, values: list[Any], mutated: list[Handle]
) -> list[tuple[Any, AliasKind, Any]]:
    """(node or constant, alias, base) for each result; a clone where fresh memory needs one."""
    outputs: list[tuple[Any, AliasKind, Any]] = []
    seen: dict[int, int] = {}  # memory -> the first result that shows it
    taken = {_origin(rewriter.read(handle)) for handle in mutated}
    for position, value in enumerate(values):
        if isinstance(value, Number):
            outputs.append((value.node, AliasKind.FRESH, None))
        elif not isinstance(value, Handle):
            outputs.append((value, AliasKind.FRESH, None))
        elif value.memory.placeholder is not None:
            outputs.append((rewriter.read(value), AliasKind.INPUT, value.memory.placeholder))
        elif id(value.memory) in seen:
            outputs.append((rewriter.read(value), AliasKind.OUTPUT, seen[id(value.memory)]))
        else:
            node = rewriter.read(value)
            if _origin(node).op == "placeholder" or _origin(node) in taken:
                node = rewriter.emit(aten.clone.default, (node,), value=value.fake)
                node.meta.update({key: _words(value.node)[key] for key in _words(value.node)})
            taken.add(_origin(node))
            seen[id(value.memory)] = position
            outputs.append((node, AliasKind.FRESH, None))
    return outputs


def _words(node: fx.Node) -> dict[str, Any]:
    return {key: node.meta[key] for key in ("stack_trace", "nn_module_stack") if key in node.meta}


def _origin(node: fx.Node) -> fx.Node:
    """The node whose memory a node may show, through views."""
    while node.op == "call_function":
        target = node.target
        if target is not operator.getitem and not (
            isinstance(target, torch._ops.OpOverload)
            and target.namespace == "aten"
            and packet_name(target) in _VIEWS
        ):
            return node
        source = node.args[0]
        if not isinstance(source, fx.Node):
            return node
        if target is operator.getitem and not _is_view(source):
            return node
        node = source
    return node


def _is_view(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and packet_name(node.target) in _VIEWS
