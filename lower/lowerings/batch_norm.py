"""Batch norm that trains: the new running statistics are results."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from longhand.capture.graph import batch_normalized_op
from longhand.lower.context import Context
from longhand.lower.ir import BufferKind
from longhand.lower.lowerings.batch_statistics import has_pieces, normalize_by_batch, normalized_images
from longhand.lower.registry import lowers
from longhand.lower.sizes import as_size
from longhand.lower.unsupported import UnsupportedLowering, require_loop_dtypes
from longhand.lower.views import TensorView

aten = torch.ops.aten


@lowers(aten._native_batch_norm_legit_functional.default)
def _batch_norm_training(
    ctx: Context,
    x: TensorView,
    weight: TensorView | None,
    bias: TensorView | None,
    running_mean: TensorView,
    running_var: TensorView,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Kernels of ours on CUDA; else ATen's own call, which updates the running statistics in place, where that is what
    becomes of them.
    """
    running = (running_mean, running_var)
    if training and has_pieces(ctx, x):
        return normalize_by_batch(ctx, x, weight, bias, running, momentum, eps)
    if not training or not _only_update(ctx, (3, 4)):
        raise UnsupportedLowering("Batch norm whose new statistics are read is left to ATen.")
    if any(ctx.buffers[view.buffer].kind is BufferKind.INTERMEDIATE for view in running):
        raise UnsupportedLowering("Batch norm of statistics that are computed is left to ATen.")
    made = []
    for position in range(3):
        value, shape = ctx.result(position), ctx.result_shape(position)
        strides = [as_size(step) for step in value.stride()]
        name = ctx.result_name(position)
        is_known = value.ndim == 1 or (x.is_contiguous and ctx.buffers[x.buffer].layout_is_known)
        unread = ctx.unread_result(name, position)
        made.append(
            ctx.make_buffer(name, value.dtype, shape, strides, layout_is_known=is_known, derived=unread)
        )
    views = [None if view is None else ctx.argument(view) for view in (x, weight, bias, *running)]
    ctx.call(
        aten.native_batch_norm.default,
        (*views, True, momentum, eps),
        outputs=tuple(view.buffer for view in made),
        mutates=tuple(view.buffer for view in running),
    )
    return (*made, *running)


@lowers(batch_normalized_op)
def _batch_normalized(
    ctx: Context,
    x: TensorView,
    weight: TensorView | None,
    bias: TensorView | None,
    mean: TensorView,
    rstd: TensorView,
) -> TensorView:
    require_loop_dtypes(*(view.dtype for view in (x, weight, bias) if view is not None))
    return normalized_images(ctx, x, weight, bias, (mean, rstd))


def _only_update(ctx: Context, places: tuple[int, ...]) -> bool:
    """Whether arguments at these places, and the results there, are used for nothing but to become one another."""
    written = {entry.value_node: entry.input_node for entry in ctx.graph.mutations}
    returned = {output.value for output in ctx.graph.outputs}
    for place in places:
        source = ctx.node.args[place]
        results = [user for user in ctx.node.users if user.args[1] == place]
        if not isinstance(source, fx.Node) or len(results) != 1 or len(source.users) != 1:
            return False
        (result,) = results
        is_read = any(user.op != "output" for user in result.users) or result.name in returned
        if is_read or written.get(result.name) != source.name or source.name in returned:
            return False
    return True
