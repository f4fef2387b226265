"""Tensors that a model on a GPU keeps on the CPU (counts that it will read, say): ATen computes with them there.

Kernels of the unit cannot read them. What the unit holds itself, constants and weights, lies on the GPU with the rest,
and a number is at home everywhere: both are copied to the CPU for the calls that compute there.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture.graph import CapturedGraph, InputKind, tensors_in
from longhand.lower.context import Context
from longhand.lower.ir import Derivation
from longhand.lower.lowerings.externs import call_extern
from longhand.lower.views import TensorView
from longhand.options import Device, Options

aten = torch.ops.aten
_CPU = torch.device("cpu")


def host_values(graph: CapturedGraph, options: Options) -> frozenset[str]:
    """The nodes of a graph for a GPU whose tensors are on the CPU, but for what the unit holds and numbers.

    A graph that is on the CPU altogether is meant to be on the GPU altogether.
    """
    devices = {leaf.device.type for node in graph.graph.nodes for leaf in tensors_in(node.meta.get("val"))}
    if options.target.device is Device.CPU or len(devices) < 2:
        return frozenset()
    given = {entry.node for entry in graph.inputs if entry.kind is InputKind.ARGUMENT}
    return frozenset(
        node.name
        for node in graph.graph.nodes
        if _is_on_cpu(node) and (node.name in given if node.op == "placeholder" else not _is_number(node))
    )


def is_host_call(ctx: Context) -> bool:
    """Whether the node computes on the CPU, or reads what lies there."""
    node = ctx.node
    return node.target is not operator.getitem and (
        node.name in ctx.host or any(source.name in ctx.host for source in node.all_input_nodes)
    )


def call_host(ctx: Context) -> Any:
    """The node as a library call; where it computes on the CPU, on copies of what the unit holds."""
    node = ctx.node
    is_there = node.name in ctx.host
    there = [source for source in node.all_input_nodes if _is_on_cpu(source) and source.name not in ctx.host]
    own = {source.name: ctx.values[source.name] for source in there if is_there}
    for name, value in own.items():
        ctx.values[name] = _copied(ctx, value)
    returned = call_extern(ctx, f"It {'computes on' if is_there else 'reads a tensor that is on'} the CPU.")
    ctx.values.update(own)
    if is_there:
        ctx.host_buffers |= {
            view.buffer for view in pytree.tree_leaves(returned) if isinstance(view, TensorView)
        }
    return returned


def _copied(ctx: Context, value: TensorView) -> TensorView:
    """A copy on the CPU of what lies on the GPU."""
    copy = ctx.derive(Derivation.ON_CPU, value.buffer, value.dtype, value.shape)
    ctx.call(aten._to_copy.default, (ctx.argument(value),), {"device": _CPU}, outputs=(copy.buffer,))
    ctx.host_buffers.add(copy.buffer)
    return copy


def _is_on_cpu(node: fx.Node) -> bool:
    values = tensors_in(node.meta.get("val"))
    return bool(values) and all(value.device.type == "cpu" for value in values)


def _is_number(node: fx.Node) -> bool:
    """Whether a call makes one element of nothing: what a kernel reads is the number itself."""
    value = node.meta["val"]
    return not node.all_input_nodes and isinstance(value, torch.Tensor) and not value.ndim
