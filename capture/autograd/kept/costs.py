"""What a value of the joint graph costs: its bytes, the operations that make it; whether it may be computed twice."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch import fx

from longhand.capture import torch_private
from longhand.capture.autograd.randomness import is_random
from longhand.capture.functionalize.batch_normalized import batch_normalized_op
from longhand.capture.functionalize.decompositions import packet_name
from longhand.capture.graph import Provenance

_HEAVY = frozenset(
    [
        "mm",
        "bmm",
        "addmm",
        "baddbmm",
        "addbmm",
        "mv",
        "addmv",
        "dot",
        "linear",
        "matmul",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "convolution",
        "scaled_dot_product_attention",
        "grid_sampler",
        "cumsum",
        "cumprod",
        "logcumsumexp",
        "sort",
        "topk",
        "argsort",
        "max_pool2d_with_indices",
        "max_pool3d_with_indices",
        "avg_pool2d",
        "avg_pool3d",
        "_adaptive_avg_pool2d",
        "upsample_nearest1d",
        "upsample_nearest2d",
        "upsample_nearest3d",
        "upsample_linear1d",
        "upsample_bilinear2d",
        "upsample_trilinear3d",
        "upsample_bicubic2d",
        "lstm",
        "gru",
        "index_add",
        "index_put",
        "scatter",
        "scatter_add",
        "scatter_reduce",
        "_native_batch_norm_legit_functional",
        "_native_batch_norm_legit",
        "cross_entropy_loss",
        "nll_loss_forward",
        # A gather reads as much as it yields, and its layer would differ from all others.
        "embedding",
    ]
)
# Of so many elements that no program holds them: the statistics are kept, which costs nothing beside reading all again.
_LONG_ROW = 8192
_HEAVY_PREFIXES = (
    "_scaled_dot_product",
    "_flash_attention",
    "_efficient_attention",
    "fft_",
    "linalg_",
    "_fft",
)


def operations(node: fx.Node) -> float:
    """Multiplications of a matrix product or convolution; of anything else the bytes that it reads."""
    name = packet_name(node.target) if isinstance(node.target, torch._ops.OpOverload) else ""
    sources = [source.meta["val"] for source in node.all_input_nodes]
    shapes = [value.shape for value in sources if isinstance(value, torch.Tensor)]
    value = node.meta["val"]
    first = value[0] if isinstance(value, list | tuple) else value
    if name in ("mm", "bmm", "addmm", "baddbmm", "matmul", "linear") and shapes:
        return float(number(first.numel()) * number(shapes[0][-1]))
    if name.startswith("conv") and len(shapes) > 1:
        weight = shapes[1]
        return float(number(first.numel()) * number(weight.numel() // weight[0]))
    if name.startswith("_scaled_dot_product") and len(shapes) > 1:
        return float(2 * number(first.numel()) * number(shapes[1][-2]))
    return float(sum(map(bytes_of, node.all_input_nodes)))


def checkpoint(node: fx.Node) -> int:
    """The checkpointed region that a node stands in."""
    origin: Provenance | None = node.meta.get("provenance")
    return origin.checkpoint if origin is not None else 0


def is_stateful(node: fx.Node) -> bool:
    """Whether the call is of somebody's own op, of which nobody knows what else it does."""
    target = node.target
    is_known = not isinstance(target, torch._ops.OpOverload) or target.namespace == "aten"
    return not is_known and target is not batch_normalized_op


def is_light(node: fx.Node) -> bool:
    """Whether the backward pass may compute the node again."""
    if node.op == "placeholder":
        return False
    if not isinstance(node.target, torch._ops.OpOverload):
        return True  # arithmetic on sizes; getitem follows its call
    name = packet_name(node.target)
    if name == "var_mean" and _row_length(node) > _LONG_ROW:
        return False
    return not (is_random(node) or is_stateful(node) or name in _HEAVY or name.startswith(_HEAVY_PREFIXES))


def _row_length(node: fx.Node) -> int:
    """Of statistics: the elements that one of them is of."""
    source, (first, *_) = node.all_input_nodes[0].meta["val"], node.meta["val"]
    return number(source.numel()) // max(1, number(first.numel()))


def bytes_of(node: fx.Node) -> int:
    """The size of a tensor; 0 of anything else."""
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return 0
    return number(value.numel()) * value.dtype.itemsize


def number(size: Any) -> int:
    """A size, symbolic ones as in the example call."""
    if isinstance(size, int):
        return size
    hint = torch_private.symbolic_hint(size)
    return hint if hint is not None else int(sympy.oo)
