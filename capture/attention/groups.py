"""Grouped queries where no fused kernel takes groups: keys and values are repeated for the heads that share them.

On CUDA the flash kernel alone looks up whose keys a head shares; PyTorch computes what that one refuses, all of float32
and all with a mask, by products and a softmax. Repeated, keys and values are the memory-efficient kernel's: a copy of
both, which joins the kernel that makes them, instead of scores as large as queries times keys.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from longhand.capture.attention.kernels import Operands, groups_of, suits_efficient, suits_flash
from longhand.capture.attention.operands import Views
from longhand.capture.functionalize.dead_code import remove_dead_code
from longhand.capture.functionalize.writes import bound
from longhand.capture.known.biases import ATTENTION, mask_of
from longhand.capture.known.call import shape_of
from longhand.capture.known.spelling import Emit, sizes_in
from longhand.capture.provenance import Provenance, remarked
from longhand.options import Device, Target

aten = torch.ops.aten

_REMARK = "keys and values once for each head: no fused kernel takes groups here"


def repeat_keys(graph: fx.Graph, emit: Emit, machine: Target) -> None:
    """Rewrites the graph in place.

    Args:
        graph: Functional; each node has its fake value and its provenance.
        emit: Adds a call at the graph's insertion point.
        machine: What the graph is for.
    """
    calls = [node for node in graph.nodes if node.target is ATTENTION and node.kwargs.get("enable_gqa")]
    sizes = sizes_in(graph) if calls else {}
    for call in calls:
        query, key, value = (call.args[place] for place in range(3))
        assert isinstance(query, fx.Node) and isinstance(key, fx.Node) and isinstance(value, fx.Node)
        fakes: Operands = (query.meta["val"], key.meta["val"], value.meta["val"])
        if any(fake.dim() != 4 for fake in fakes) or shape_of(key)[1] != shape_of(value)[1]:
            continue
        count = groups_of(*fakes[:2])
        if count == 1:
            _give(call, key, value)
            continue
        is_causal = bool(bound(ATTENTION, call.args, call.kwargs)["is_causal"])
        is_flash = mask_of(call) is None and suits_flash(*fakes, is_causal, machine, is_grouped=True)
        if count is None or machine.device is not Device.CUDA or is_flash:
            continue
        views = Views(graph, emit, sizes, call)
        wide_key, wide_value = (_repeated(views, one, count) for one in (key, value))
        if wide_key is None or wide_value is None:
            continue
        if suits_efficient(fakes[0], wide_key.meta["val"], wide_value.meta["val"], None, machine):
            _give(call, wide_key, wide_value)
            call.meta["provenance"] = remarked(Provenance.of(call), _REMARK)
    remove_dead_code(graph)


def _repeated(views: Views, node: fx.Node, count: int) -> fx.Node | None:
    """Each head, `count` times in a row."""
    batch, heads, positions, channels = shape_of(node)
    shapes = (batch, heads, count, positions, channels), (batch, heads * count, positions, channels)
    wide, joined = map(views.as_arguments, shapes)
    if wide is None or joined is None:
        return None
    apart = views.call(aten.unsqueeze.default, node, 2)
    return views.call(aten.reshape.default, views.call(aten.expand.default, apart, wide), joined)


def _give(call: fx.Node, *keys_and_values: Any) -> None:
    """Calls attention with as many heads of keys as of queries."""
    call.args = (call.args[0], *keys_and_values, *call.args[3:])
    call.kwargs = {name: given for name, given in call.kwargs.items() if name != "enable_gqa"}
