"""Copies of what no kernel reads: tensors on the CPU beside CUDA ones, and numbers that loops do not compute with."""

from __future__ import annotations

import torch
import torch.utils._pytree as pytree

from longhand.errors import LoweringError
from longhand.lower.program_builder import ProgramBuilder
from longhand.lower.unsupported import LOOP_DTYPES
from longhand.lower.views import TensorView


def allocated_for_aten(ctx: ProgramBuilder, view: TensorView, copy: TensorView) -> bool:
    """Whether ATen must copy a view, since no kernel can and a call can say what the view is. Then memory is made."""
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
    return True
