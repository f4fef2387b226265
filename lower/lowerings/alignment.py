"""Products of tensors whose rows have an odd number of bytes are widened: cuBLAS falls back to slow kernels for them.

A GPT-2 head of 50257 words takes 7.6 ms in bfloat16 on an H200, one of 50264 takes 0.9 ms (8192 tokens of 768
features); the two products of its backward take 5.3 and 4.9 ms, and 0.8 ms each. Strides alone do not help: the sizes
count. So on CUDA ``linear(x, weight)`` becomes ``linear(x, pad(weight))[..., :n]``: the table is copied in each call,
which pays where it meets many rows, and the result is a view of the padded product (as torch.compile's is). In
``mm(d, weight)`` and ``mm(d.t(), x)`` the rows of ``d`` are written with zeros behind them.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import fx

from longhand.capture.graph import PADDED_FOR_SPEED, CapturedGraph, Provenance, is_view
from longhand.lower.lowerings.new_nodes import add_call
from longhand.options import Device, Options

aten = torch.ops.aten

# cuBLAS moves 16 bytes at a time.
_ALIGNMENT_BYTES = 16
_REMARK = "Padded for cuBLAS: several times faster where the rows that it makes and reads are multiples of 16 bytes."
# Below these, the copy of the table costs more than it saves.
_LEAST_ROWS = 512
_LEAST_COLS = 1024


def align_products(graph: CapturedGraph, options: Options) -> CapturedGraph:
    """The captured graph with large, badly aligned products widened; itself where there are none, or not on CUDA."""
    nodes = graph.graph.nodes
    if options.target.device is not Device.CUDA or not any(map(_is_misaligned, nodes)):
        return graph
    aligner = _Aligner()
    for node in nodes:
        aligner.add(node)
    return dataclasses.replace(graph, graph=aligner.graph)


def _is_misaligned(node: fx.Node) -> bool:
    return bool(_missing_outputs(node) or _missing_rows(node) or _missing_inner(node))


class _Aligner:
    """Writes the graph anew."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.copies: dict[fx.Node, fx.Node] = {}
        self.padded: dict[tuple[fx.Node, tuple[int, ...]], fx.Node] = {}

    def add(self, node: fx.Node) -> None:
        """A node of the old graph, widened where it is a product that is worth it."""
        if missing := _missing_outputs(node):
            self.copies[node] = self._linear(node, missing)
        elif missing := _missing_rows(node):
            self.copies[node] = self._transposed_product(node, missing)
        elif missing := _missing_inner(node):
            self.copies[node] = self._product(node, missing)
        else:
            self.copies[node] = self.graph.node_copy(node, self.copies.__getitem__)

    def _linear(self, node: fx.Node, missing: int) -> fx.Node:
        features, table = (self.copies[arg] for arg in node.args if isinstance(arg, fx.Node))
        padded = self._pad_table(table, node, missing)
        wide = self._call(
            f"{node.name}_padded", aten.linear.default, (features, padded), node, is_padded=True
        )
        value = node.meta["val"]
        last = value.dim() - 1
        return self._call(node.name, aten.slice.Tensor, (wide, last, 0, value.shape[-1]), node)

    def _transposed_product(self, node: fx.Node, missing: int) -> fx.Node:
        """``mm(d.t(), x)``: a row of the result for each column of d."""
        transposed, right = (self.copies[arg] for arg in node.args if isinstance(arg, fx.Node))
        padded = self._pad_rows(transposed.all_input_nodes[0], missing)
        back = self._call(
            f"{transposed.name}_padded", aten.transpose.int, (padded, 0, 1), transposed, is_padded=True
        )
        wide = self._call(f"{node.name}_padded", aten.mm.default, (back, right), node, is_padded=True)
        return self._call(node.name, aten.slice.Tensor, (wide, 0, 0, node.meta["val"].shape[0]), node)

    def _product(self, node: fx.Node, missing: int) -> fx.Node:
        """``mm(d, weight)``: zeros behind the rows of d meet zeros below those of the weight."""
        left, right = (self.copies[arg] for arg in node.args if isinstance(arg, fx.Node))
        rows = self._pad_rows(left, missing)
        table = self._pad_table(right, node, missing)
        return self._call(node.name, aten.mm.default, (rows, table), node)

    def _pad_table(self, table: fx.Node, node: fx.Node, missing: int) -> fx.Node:
        padded = self._pad(table, (0, 0, 0, missing), f"{node.name}_table", node)
        padded.meta["provenance"] = dataclasses.replace(
            Provenance.of(node),
            local="padded_weight",
            remark=_REMARK,
            differentiates="",
            differentiated="",
            gradient_of="",
        )
        return padded

    def _pad_rows(self, rows: fx.Node, missing: int) -> fx.Node:
        padded = self._pad(rows, (0, missing), f"{rows.name}_padded", rows)
        named = rows
        while Provenance.of(named).local is None and is_view(named):
            named = named.all_input_nodes[0]
        if Provenance.of(named).gradient_of:
            padded.meta["provenance"] = Provenance.of(named)  # a gradient goes by its name, padded or not
        elif local := Provenance.of(named).local:
            padded.meta["provenance"] = dataclasses.replace(Provenance.of(rows), local=f"padded_{local}")
        return padded

    def _pad(self, node: fx.Node, by: tuple[int, ...], name: str, of: fx.Node) -> fx.Node:
        if (node, by) not in self.padded:
            self.padded[node, by] = self._call(
                name, aten.constant_pad_nd.default, (node, list(by), 0.0), of, is_padded=True
            )
        return self.padded[node, by]

    def _call(
        self, name: str, target: Any, args: tuple[Any, ...], of: fx.Node, is_padded: bool = False
    ) -> fx.Node:
        """A new node; whether it has more rows or columns than it is read of."""
        made = add_call(self.graph, name, target, args, of)
        made.meta[PADDED_FOR_SPEED] = is_padded
        return made


def _missing_outputs(node: fx.Node) -> int:
    """How many columns the result of a linear op lacks to be aligned; 0 where it is, or where widening does not pay."""
    if node.op != "call_function" or node.target is not aten.linear.default or len(node.args) > 2:
        return 0
    sizes = tuple(node.meta["val"].shape)
    if not all(isinstance(size, int) for size in sizes) or len(sizes) < 2:
        return 0
    return _missing(sizes[-1], math.prod(sizes[:-1]), node.meta["val"])


def _missing_rows(node: fx.Node) -> int:
    """Of ``mm(d.t(), x)``: how many columns d lacks."""
    if not _is_static_product(node):
        return 0
    left = node.args[0]
    assert isinstance(left, fx.Node)
    rows, inner = left.meta["val"].shape
    return _missing(rows, inner, node.meta["val"]) if _is_transposed(left) else 0


def _missing_inner(node: fx.Node) -> int:
    """Of ``mm(d, weight)``: how many columns d lacks."""
    if not _is_static_product(node):
        return 0
    left = node.args[0]
    assert isinstance(left, fx.Node)
    rows, inner = left.meta["val"].shape
    return 0 if _is_transposed(left) else _missing(inner, rows, node.meta["val"])


def _missing(cols: int, rows: int, value: torch.Tensor) -> int:
    if cols < _LEAST_COLS or rows < _LEAST_ROWS or not value.is_floating_point():
        return 0
    return -cols % max(_ALIGNMENT_BYTES // value.element_size(), 1)


def _is_static_product(node: fx.Node) -> bool:
    if node.op != "call_function" or node.target is not aten.mm.default:
        return False
    return all(isinstance(size, int) for arg in node.all_input_nodes for size in arg.meta["val"].shape)


def _is_transposed(node: fx.Node) -> bool:
    """Whether a matrix is another one with its two dimensions swapped."""
    swapped: Any = node.args[1] if node.target is aten.permute.default else node.args[1:]
    if node.target is aten.permute.default:
        return [dim % 2 for dim in swapped] == [1, 0]
    return node.target is aten.t.default or (
        node.target is aten.transpose.int and {dim % 2 for dim in swapped} == {0, 1}
    )
