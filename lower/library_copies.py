"""Copies of what no kernel reads: tensors on the CPU beside CUDA ones, and numbers that loops do not compute with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.utils._pytree as pytree

from longhand.errors import LoweringError
from longhand.lower.unsupported import LOOP_DTYPES
from longhand.lower.views import TensorView

if TYPE_CHECKING:
    from longhand.lower.context import Context


def copied_by_aten(ctx: Context, view: TensorView, copy: TensorView) -> bool:
    """Lets ATen make `copy` of `view`, if no kernel can and a call can say what the view is; whether it does."""
    is_on_host, is_plain = view.buffer in ctx.host_buffers, view.as_ir() is not None
    if is_on_host and not is_plain:
        raise LoweringError(f"{view.buffer} is on the CPU, and no view of it has these elements.")
    if not is_on_host and (view.dtype in LOOP_DTYPES or not (is_plain or view.calls)):
        return False
    device = pytree.tree_leaves(ctx.node.meta["val"])[0].device
    if is_on_host:
        ctx.host_buffers.add(copy.buffer)
        device = torch.device("cpu")
    made, lies = {"dtype": view.dtype, "device": device}, (copy.shape, copy.strides() or ())
    ctx.call(torch.ops.aten.empty_strided.default, lies, made, outputs=(copy.buffer,))
    ctx.copy_into(view, copy)
    return True
