"""Ops that say nothing of what their results look like: torch's trace runs them, on zeros.

Whatever follows from that holds of zeros: there is one different number in them, all are equal. So such an op is run
once more, on other numbers; where sizes are others then, the data tell them, whatever the trace says.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_tracing
from longhand.capture.tensor_leaves import tensors_in

__all__ = ["sizes_were_of_zeros"]

# Kernels by which torch's fake tensors know an op without running it.
_TELLING: tuple[Any, ...] = (
    "Meta",
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)


def sizes_were_of_zeros(node: fx.Node) -> bool:
    """Whether a traced call makes tensors of other sizes from other numbers than zeros, of which the trace is."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":  # others are never run
        return False
    if any(map(target.has_kernel_for_dispatch_key, _TELLING)):
        return False
    given = fx.node.map_arg((node.args, node.kwargs), lambda source: source.meta.get("val"))
    traced = [tuple(one.shape) for one in tensors_in(node.meta.get("val"))]
    if not all(type(size) is int for one in tensors_in((given, node.meta.get("val"))) for size in one.shape):
        return False  # torch runs nothing on zeros of symbolic sizes
    with torch_tracing.no_modes(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            args, kwargs = pytree.tree_map_only(torch.Tensor, _other_numbers, given)
            made = target(*args, **kwargs)
        except Exception:  # such numbers are no arguments of it
            return False
    return [tuple(one.shape) for one in tensors_in(made)] != traced


def _other_numbers(like: torch.Tensor) -> torch.Tensor:
    """Of its looks, on the CPU: 0, 1, 2, ... in turn, or drawn."""
    made = torch.empty_strided(tuple(map(int, like.shape)), tuple(map(int, like.stride())), dtype=like.dtype)
    if like.is_floating_point() or like.is_complex():
        return made.copy_(torch.rand(made.shape))
    counted = torch.arange(made.numel()).reshape(made.shape)
    return made.copy_(counted % (2 if like.dtype is torch.bool else 100))
