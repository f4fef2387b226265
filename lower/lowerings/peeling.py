"""The bias of a convolution is added by the kernel that reads the result: on CUDA the library takes a launch for it.

cuDNN's call leaves the bias to an addition of its own, which reads and writes the whole image: conv + bias + relu as
ops took 2.3 to 3.2 times the convolution alone (H200). Where a kernel of ours reads the result, that adds the bias on
its way, without a rounding in between. torch.compile does the same.

So it is with the gradient of a bias, the sum of the result's gradient over batch and pixels: beside the two products
the library reads all of it once more, where a kernel that makes it may add it up on its way.
"""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import torch
from torch import fx

from longhand.capture.graph import CapturedGraph, Provenance, is_view
from longhand.lower.layouts import CONVOLUTIONS
from longhand.lower.lowerings.new_nodes import add_call
from longhand.lower.registry import LOWERINGS
from longhand.options import Device, Options

aten = torch.ops.aten

_BIASED = CONVOLUTIONS | {
    aten.conv1d.default,
    aten.conv1d.padding,
    aten.conv3d.default,
    aten.conv3d.padding,
    aten.conv_transpose1d.default,
    aten.conv_transpose3d.input,
}
_BIAS, _MASK = 2, 10
_REMARK = "The convolution's bias, too: in the call of the library that would be a launch of its own."


def peel_biases(graph: CapturedGraph, options: Options) -> CapturedGraph:
    """The captured graph with convolutions and their biases apart; itself where there are none, or not on CUDA."""
    nodes = graph.graph.nodes
    if options.target.device is not Device.CUDA or not any(
        _is_peeled(node) or _sums_bias(node) for node in nodes
    ):
        return graph
    written = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in graph.graph.nodes:
        if _is_peeled(node):
            copies[node] = _peeled(written, node, copies)
        elif _is_gradient_of_bias(node):
            copies[node] = _sum_of_gradient(written, node, copies)
        else:
            copies[node] = written.node_copy(node, copies.__getitem__)
        if _sums_bias(node):
            copies[node].update_arg(_MASK, [*_wanted(node)[:2], False])
    return dataclasses.replace(graph, graph=written)


def _is_peeled(node: fx.Node) -> bool:
    """Whether a node is a convolution with a bias whose result a kernel of ours reads."""
    if node.target not in _BIASED or len(node.args) <= _BIAS or not isinstance(node.args[_BIAS], fx.Node):
        return False
    return node.meta["val"].is_floating_point() and _is_read_by_kernel(node)


def _is_read_by_kernel(node: fx.Node) -> bool:
    return any(_is_read_by_kernel(user) if is_view(user) else user.target in LOWERINGS for user in node.users)


def _peeled(graph: fx.Graph, node: fx.Node, copies: dict[fx.Node, fx.Node]) -> fx.Node:
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), copies.__getitem__)
    name, bias = f"{node.name}_without_bias", args[_BIAS]
    without = graph.create_node(
        "call_function", node.target, (*args[:_BIAS], None, *args[_BIAS + 1 :]), kwargs, name=name
    )
    told: Provenance = Provenance.of(node)
    without.meta = {**node.meta, "provenance": dataclasses.replace(told, local=None)}
    shape = [-1] + [1] * (node.meta["val"].dim() - 2)
    each = add_call(graph, f"{node.name}_bias", aten.view.default, (bias, shape), node)
    biased = add_call(graph, node.name, aten.add.Tensor, (without, each), node)
    biased.meta["provenance"] = dataclasses.replace(told, local=told.local or "biased", remark=_REMARK)
    return biased


def _sums_bias(node: fx.Node) -> bool:
    """Whether a node makes the gradient of a convolution's bias, and not that alone."""
    if node.target is not aten.convolution_backward.default:
        return False
    of_input, of_weight, of_bias = _wanted(node)
    if not of_bias or not (of_input or of_weight):
        return False
    d_bias = node.meta["val"][_BIAS]
    return d_bias is not None and bool(d_bias.is_floating_point())


def _wanted(node: fx.Node) -> list[bool]:
    """Which gradients are asked for: of what is convolved, the weight, the bias."""
    mask: Any = node.args[_MASK]
    return [bool(one) for one in mask]


def _is_gradient_of_bias(node: fx.Node) -> bool:
    is_third = node.target is operator.getitem and bool(node.args[1] == _BIAS)
    return is_third and _sums_bias(node.all_input_nodes[0])


def _sum_of_gradient(graph: fx.Graph, node: fx.Node, copies: dict[fx.Node, fx.Node]) -> fx.Node:
    d_out = copies[node.all_input_nodes[0].all_input_nodes[0]]
    dims = [dim for dim in range(d_out.meta["val"].dim()) if dim != 1]
    return add_call(graph, node.name, aten.sum.dim_IntList, (d_out, dims), node)


assert all(target._schema.arguments[_BIAS].name == "bias" for target in _BIASED)
assert aten.convolution_backward.default._schema.arguments[_MASK].name == "output_mask"
