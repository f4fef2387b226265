"""Channels last: images of (batch, channels, height, width) whose channels lie innermost in memory.

cuDNN's fast convolutions work on that layout and convert to it and back around each call. So where a graph has such
convolutions, their arguments are brought to it once, and everything between them keeps it. What the caller gets has
eager's strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from longhand.capture.graph import (
    BackwardKind,
    CapturedGraph,
    GraphInput,
    InputKind,
    TrainingGraphs,
    is_view,
)
from longhand.lower.body import Size
from longhand.lower.sizes import as_size, contiguous_strides, multiply, product, same
from longhand.lower.views import TensorView
from longhand.options import Device, Options

aten = torch.ops.aten

CONVOLUTIONS = frozenset(
    {aten.convolution.default, aten.conv2d.default, aten.conv2d.padding, aten.conv_transpose2d.input}
)
# What a tensor core multiplies: float32 as TF32.
_FAST_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
# In these each channel may have filters of its own: depthwise convolutions of 128 channels at 56^2, batch 32, took
# 0.125 ms in bfloat16 and 0.029 channels last (H200). Other groups, and depthwise float32, are better off contiguous.
_FAST_DEPTHWISE = (torch.float16, torch.bfloat16)
# Smaller convolutions gain nothing (Inductor's measurements say so, too).
_FEW_CHANNELS = 64


def channels_last_strides(shape: Sequence[Size]) -> tuple[Size, ...]:
    """The strides of a dense tensor of (batch, channels, height, width) whose channels lie innermost."""
    batch, channels, height, width = shape
    in_batch, in_height, in_width, in_channels = contiguous_strides((batch, height, width, channels))
    return in_batch, in_channels, in_height, in_width


def is_channels_last(view: TensorView) -> bool:
    """Whether the channels of a view lie innermost. False where that says nothing (one channel, or one pixel)."""
    strides = view.strides() if view.rank == 4 and not view.is_empty else None
    return strides is not None and lie_last(view.shape, strides)


def lie_last(shape: Sequence[Size], strides: Sequence[Size]) -> bool:
    """The same of images of this shape, with these strides."""
    if not same(strides[1], 1):
        return False
    if same(shape[1], 1) or (same(shape[2], 1) and same(shape[3], 1)):
        return False
    least: Size = shape[1]
    for dim in (3, 2, 0):
        step = strides[dim]
        if same(shape[dim], 1):
            continue
        if not same(step, least) and not (isinstance(step, int) and isinstance(least, int) and step >= least):
            return False
        least = multiply(step, shape[dim])
    return True


def may_seem_last(node: fx.Node) -> bool:
    """Whether a library may take a contiguous value for one whose channels lie last: it has one, and steps say so."""
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor) or value.dim() < 4:
        return False
    if not all(isinstance(number, int) for number in (*value.shape, *value.stride())):
        return False  # sizes that vary are asked nothing here
    if not value.is_contiguous():
        return False
    least = 0
    for dim in (1, *range(value.dim() - 1, 1, -1)):  # as is_channels_last_strides_2d in MemoryFormat.h
        if value.stride(dim) < max(least, 1):
            return False
        least = value.stride(dim) * value.shape[dim]
    return bool(value.stride(0) >= least and value.stride(0) != value.stride(1))


def split_channels_last_strides(shape: Sequence[Size]) -> tuple[Size, ...]:
    """The same of (batch, groups, channels of a group, height, width)."""
    batch, groups, per_group, height, width = shape
    joined = channels_last_strides((batch, multiply(groups, per_group), height, width))
    in_batch, in_channels, in_height, in_width = joined
    return in_batch, per_group, in_channels, in_height, in_width


def is_split_channels_last(view: TensorView) -> bool:
    """Whether a view is one of images that are channels last, their channels taken apart into groups."""
    if view.rank != 5 or view.is_empty:
        return False
    batch, groups, per_group, *space = view.shape
    joined = view.reshape((batch, multiply(groups, per_group), *space))
    return joined is not None and is_channels_last(joined)


def has_strides(view: TensorView, strides: Sequence[Size]) -> bool:
    """Whether a view has these strides in every dimension in which it has more than one position."""
    own = view.strides()
    return own is not None and all(
        same(size, 1) or same(step, wanted)
        for size, step, wanted in zip(view.shape, own, strides, strict=True)
    )


def eager_strides(value: torch.Tensor) -> tuple[Size, ...] | None:
    """The strides that eager gives a tensor, if it is dense: contiguous once its dimensions are put in some order."""
    shape = tuple(as_size(size) for size in value.shape)
    strides = tuple(as_size(step) for step in value.stride())
    if product(shape) == 0:
        return None
    wide = [(size, step) for size, step in zip(shape, strides, strict=True) if not same(size, 1)]
    expected: Size = 1
    while wide:
        inner = next((entry for entry in wide if same(entry[1], expected)), None)
        if inner is None:
            return None
        wide.remove(inner)
        expected = multiply(expected, inner[0])
    return strides


def input_strides(entry: GraphInput, value: torch.Tensor) -> tuple[Size, ...]:
    """How an input lies in memory: as it is given; of what a unit holds, contiguous where it makes the value itself.

    Args:
        entry: The input.
        value: Its example.
    """
    if entry.is_given:
        return tuple(as_size(step) for step in value.stride())
    loaded = entry.kind is not InputKind.CONSTANT and entry.persistent
    own = eager_strides(value) if loaded else None
    return own or contiguous_strides(tuple(as_size(size) for size in value.shape))


def wants_channels_last(graph: CapturedGraph, options: Options) -> bool:
    """Whether the images of a graph are to be channels last: its convolutions are cuDNN's, and large enough.

    One convolution that is faster in the other layout, and all stays. A backward pass has the gradients of those of the
    forward, and is asked the same.
    """
    if options.target.device is not Device.CUDA:
        return False
    weights = []
    for node in graph.graph.nodes:
        if is_convolution(node) or is_convolution_backward(node):
            given = _named(node)
            weight = given["weight"].meta["val"]
            dtype = weight.dtype
            is_transposed = node.target is aten.conv_transpose2d.input or given.get("transposed", False)
            is_depthwise = weight.shape[1] == 1 and dtype in _FAST_DEPTHWISE and not is_transposed
            if dtype not in _FAST_DTYPES or (given.get("groups", 1) != 1 and not is_depthwise):
                return False
            weights.append(weight)
    return any(max(weight.shape[0], weight.shape[1]) > _FEW_CHANNELS for weight in weights)


# By what forward and backward ops call them.
_OF_ATTENTION = ("grad_out", "grad_out_", "query", "key", "value", "attn_mask", "attn_bias")


def attention_operands(graph: CapturedGraph) -> frozenset[str]:
    """The nodes that attention or its backward reads as query, key, value or mask, or through views of them.

    Libraries write their result in the query's layout. Query heads are a transposed (batch, seq, heads, channels): kept
    so, they make the result one whose heads join without a copy. A mask has its keys side by side in eager (see
    capture.known.biases): computed from a permuted table, it would lie as that does, and no fused kernel take it.
    """
    operands = set()
    for node in graph.graph.nodes:
        if node.op == "call_function" and "scaled_dot_product" in str(node.target):
            given = _named(node)
            for operand in (given.get(name) for name in _OF_ATTENTION):
                if not isinstance(operand, fx.Node):
                    continue
                while is_view(operand):
                    operands.add(operand.name)
                    operand = operand.all_input_nodes[0]
                operands.add(operand.name)
    return frozenset(operands)


def convolution_weights(graph: CapturedGraph) -> frozenset[str]:
    """The placeholders of parameters that nothing but two-dimensional convolutions use, and only as their weight."""
    nodes = {node.name: node for node in graph.graph.nodes}
    tied = {path for group in graph.tied for path in group}
    written = {mutation.input_node for mutation in graph.mutations}
    weights = set()
    for entry in graph.inputs:
        node = nodes[entry.node]
        if entry.kind is not InputKind.PARAMETER or entry.target in tied or not node.users:
            continue
        if entry.node in written:
            continue  # while a call runs, copies may stand for them (longhand.compiled.filters_of_call)
        if _is_filter(node):
            weights.add(entry.node)
    return frozenset(weights)


def trained_filters(graphs: TrainingGraphs, options: Options) -> tuple[frozenset[str], frozenset[str]]:
    """The placeholders of weights that only convolutions read in both passes: the forward's, and the backward's.

    Both read the same tensors: what one takes in any layout the other must not read in a certain one.
    """
    if not all(wants_channels_last(graph, options) for graph in (graphs.forward, graphs.backward)):
        return frozenset(), frozenset()
    nodes = {node.name: node for node in graphs.backward.graph.nodes}
    sources = {entry.node: entry.source for entry in graphs.inputs if entry.kind is BackwardKind.INPUT}
    read_otherwise = {source for name, source in sources.items() if not _is_filter(nodes[name])}
    filters = convolution_weights(graphs.forward) - read_otherwise
    return filters, frozenset(name for name, source in sources.items() if source in filters)


def is_convolution(node: fx.Node) -> bool:
    """Whether a node is a convolution over images."""
    return node.target in CONVOLUTIONS and node.meta["val"].dim() == 4


def is_convolution_backward(node: fx.Node) -> bool:
    """Whether a node makes the gradients of a convolution over images."""
    if node.target is not aten.convolution_backward.default:
        return False
    d_out: Any = node.args[0]
    return bool(d_out.meta["val"].dim() == 4)


def _is_filter(node: fx.Node) -> bool:
    """Whether nothing but convolutions and their gradients read a value, and only as their weight."""
    return all(
        (is_convolution(user) or is_convolution_backward(user)) and _is_only_weight(node, user)
        for user in node.users
    )


def _is_only_weight(node: fx.Node, user: fx.Node) -> bool:
    return user.all_input_nodes.count(node) == 1 and _named(user)["weight"] is node


def _named(node: fx.Node) -> dict[str, Any]:
    """The arguments that a node gives, by the schema's names."""
    assert isinstance(node.target, torch._ops.OpOverload)
    names = [argument.name for argument in node.target._schema.arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def forgets_padding(node: fx.Node) -> bool:
    """Whether a call computes something else on CUDA where its images lie channels last.

    avg_pool2d's gradient does, of padded windows: ATen's kernel for that layout looks for the windows of a pixel
    without the padding (AveragePool2d.cu, avg_pool2d_backward_out_cuda_frame_nhwc).
    """
    if node.target is not aten.avg_pool2d_backward.default:
        return False
    padding = node.args[4]
    assert isinstance(padding, list | tuple)
    return any(padding)
