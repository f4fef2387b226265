"""Calls as the user made them, where a trace shows what eager makes of them: below autocast and torch.func.

Attention is there the kernel that eager chose, before anything says whether its backward will be asked for; a linear
layer is a product of two views. A person would write one call for each, and so do units: what is left to choose is
chosen where the derivative is known.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from longhand.capture.functionalize.decompositions import ATTENTIONS, RESHAPES, packet_name
from longhand.capture.functionalize.writes import bound

aten = torch.ops.aten


def as_called(graph: fx.Graph) -> None:
    """Writes the calls for the kernels of attention of which nothing but the output is read, and for linear layers."""
    for node in list(graph.nodes):
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        if packet_name(node.target) in ATTENTIONS:
            _write_attention(graph, node)
        elif node.target in (aten.mm.default, aten.addmm.default):
            _write_linear(graph, node)


def _write_attention(graph: fx.Graph, node: fx.Node) -> None:
    read = [user for user in node.users if user.users]
    if any(user.target is not operator.getitem or user.args[1] != 0 for user in read):
        return
    given = bound(node.target, node.args, node.kwargs)  # type: ignore[arg-type]
    mask = given.get("attn_bias", given.get("attn_mask"))
    args = (given["query"], given["key"], given["value"], mask, given["dropout_p"], given["is_causal"])
    heads, of_keys = (given[name].meta["val"].shape[-3] for name in ("query", "key"))
    others = {"scale": given["scale"]} | ({"enable_gqa": True} if heads != of_keys else {})
    with graph.inserting_before(node):
        whole = graph.call_function(aten.scaled_dot_product_attention.default, args, others)
    whole.meta = {**node.meta, "val": node.meta["val"][0]}
    for output in read:
        output.replace_all_uses_with(whole)
    for output in list(node.users):
        graph.erase_node(output)
    graph.erase_node(node)


def _write_linear(graph: fx.Graph, node: fx.Node) -> None:
    given = bound(node.target, node.args, node.kwargs)  # type: ignore[arg-type]
    rows, turned = given.get("mat1", given["self"]), given["mat2"]
    bias = [given["self"]] if "mat1" in given else []
    if given.get("alpha", 1) != 1 or given.get("beta", 1) != 1 or not _is_transpose(turned):
        return
    weight = turned.args[0]
    n_out, n_in = weight.meta["val"].shape
    if any(one.meta["val"].shape != (n_out,) for one in bias):
        return
    x, made = rows, [node]
    if _is_reshape(rows):
        shape = rows.args[0].meta["val"].shape
        users = [user for user in node.users if _is_reshape(user)]
        sizes = {tuple(user.meta["val"].shape) for user in users}
        if len(users) == len(node.users) and shape[-1:] == (n_in,) and sizes == {(*shape[:-1], n_out)}:
            x, made = rows.args[0], users
    with graph.inserting_before(node):
        whole = graph.call_function(aten.linear.default, (x, weight, *bias))
    whole.meta = dict(made[0].meta)
    for one in made:
        one.replace_all_uses_with(whole)


def _is_reshape(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and packet_name(node.target) in RESHAPES


def _is_transpose(node: fx.Node) -> bool:
    """Of a matrix: its rows become its columns."""
    if node.target is aten.transpose.int:
        dims: list[Any] = list(node.args[1:])
        return node.args[0].meta["val"].ndim == 2 and dims[0] % 2 != dims[1] % 2  # type: ignore[union-attr]
    return node.target is aten.t.default
