"""Products whose result has rows of an odd number of bytes are widened: cuBLAS falls back to slow kernels for them.

A GPT-2 head of 50257 words takes 6.7 ms in bfloat16 on an H200, one of 50264 takes 0.9 ms (8192 tokens of 768
features). So on CUDA ``linear(x, weight)`` becomes ``linear(x, pad(weight))[..., :n]``: the table is copied in each
call, which pays where it meets many rows, and the result is a view of the padded product (as torch.compile's is).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import fx

from longhand.capture.graph import CapturedGraph, Provenance
from longhand.options import Device, Options

aten = torch.ops.aten

# cuBLAS moves 16 bytes at a time.
_ALIGNMENT_BYTES = 16
_REMARK = "Padded for cuBLAS: several times faster where a row of the result is a multiple of 16 bytes."
# Below these, the copy of the table costs more than it saves.
_LEAST_ROWS = 512
_LEAST_COLS = 1024


def align_products(graph: CapturedGraph, options: Options) -> CapturedGraph:
    """The captured graph with large, badly aligned linear ops widened; itself where there are none, or not on CUDA."""
    if options.target.device is not Device.CUDA or not any(_missing(node) for node in graph.graph.nodes):
        return graph
    aligned = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in graph.graph.nodes:
        missing = _missing(node)
        if missing:
            copies[node] = _widened(aligned, node, copies, missing)
        else:
            copies[node] = aligned.node_copy(node, copies.__getitem__)
    return dataclasses.replace(graph, graph=aligned)


def _missing(node: fx.Node) -> int:
    """How many columns the result lacks to be aligned; 0 where it is, or where widening does not pay."""
    if node.op != "call_function" or node.target is not aten.linear.default or len(node.args) > 2:
        return 0
    value = node.meta["val"]
    sizes = tuple(value.shape)
    if not all(isinstance(size, int) for size in sizes) or len(sizes) < 2 or not value.is_floating_point():
        return 0
    if sizes[-1] < _LEAST_COLS or math.prod(sizes[:-1]) < _LEAST_ROWS:
        return 0
    return -sizes[-1] % max(_ALIGNMENT_BYTES // value.element_size(), 1)


def _widened(graph: fx.Graph, node: fx.Node, copies: dict[fx.Node, fx.Node], missing: int) -> fx.Node:
    def add(name: str, target: Any, args: tuple[Any, ...]) -> fx.Node:
        made = graph.create_node("call_function", target, args, name=name)
        fakes = fx.node.map_arg(args, lambda arg: arg.meta["val"])
        with torch.no_grad():
            made.meta = {**node.meta, "val": target(*fakes)}
        return made

    features, table = (copies[arg] for arg in node.args if isinstance(arg, fx.Node))
    padded = add(f"{node.name}_table", aten.constant_pad_nd.default, (table, [0, 0, 0, missing], 0.0))
    origin: Provenance = node.meta.get("provenance", Provenance())
    padded.meta["provenance"] = dataclasses.replace(origin, local="padded_weight", remark=_REMARK)
    wide = add(f"{node.name}_padded", aten.linear.default, (features, padded))
    value = node.meta["val"]
    return add(node.name, aten.slice.Tensor, (wide, value.dim() - 1, 0, value.shape[-1]))
