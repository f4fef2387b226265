"""Calls that a pass over the captured graph adds to it."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx


def add_call(graph: fx.Graph, name: str, target: Any, args: tuple[Any, ...], of: fx.Node) -> fx.Node:
    """A call at the end of a graph, with what is known about the node of the old graph that it belongs to."""
    made = graph.create_node("call_function", target, args, name=name)
    fakes = fx.node.map_arg(args, lambda arg: arg.meta["val"])
    with torch.no_grad():
        made.meta = {**of.meta, "val": target(*fakes)}
    return made
