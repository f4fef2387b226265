"""Readable names for a finished graph's nodes."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import fx

from longhand.capture.functionalize.decompositions import packet_name
from longhand.capture.own_derivatives import result_word


def named(graph: fx.Graph, paths: dict[str, str]) -> tuple[dict[fx.Node, str], fx.Graph]:
    """The same graph with readable names: the user's local, a path, or the op's name."""
    named = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    words = _unique_words(graph, paths)
    for node in graph.nodes:
        if node.op == "output":
            named.output(fx.node.map_arg(node.args[0], copies.__getitem__))
            continue
        if node.op == "placeholder":
            copy = named.create_node("placeholder", "", name=words[node])
            copy.target = copy.name
        else:
            args = fx.node.map_arg(node.args, copies.__getitem__)
            kwargs = fx.node.map_arg(node.kwargs, copies.__getitem__)
            copy = named.create_node("call_function", node.target, args, kwargs, name=words[node])
        copy.meta = {key: node.meta[key] for key in ("val", "provenance") if key in node.meta}
        copies[node] = copy
    return {node: copy.name for node, copy in copies.items()}, named


def _unique_words(graph: fx.Graph, paths: dict[str, str]) -> dict[fx.Node, str]:
    """A name for each node. Inputs choose first, then the user's locals, then ops: `cos` is the user's `cos`."""
    words: dict[fx.Node, str] = {}
    taken: set[str] = set()

    def choose(node: fx.Node, word: str) -> None:
        unique, count = word, 1
        while unique in taken:
            unique, count = f"{word}_{count}", count + 1
        taken.add(unique)
        words[node] = unique

    for node in graph.nodes:
        if node.op == "placeholder":
            choose(node, _word(paths[node.name]))
    for node in graph.nodes:
        if node.op == "call_function" and node.meta["provenance"].local is not None:
            choose(node, _word(node.meta["provenance"].local))
    for node in graph.nodes:
        if node.op == "call_function" and node not in words:
            choose(node, _word(result_word(node) or _op_word(node)))
    return words


def _word(path: str) -> str:
    return re.sub(r"\W+", "_", path).strip("_") or "value"


def _op_word(node: fx.Node) -> str:
    target: Any = node.target
    name = packet_name(target) if isinstance(target, torch._ops.OpOverload) else target.__name__
    return name.strip("_")
