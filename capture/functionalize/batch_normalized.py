"""Batch norm's last step as an op of its own: the images, normalized by statistics that are known.

In training the statistics are what a backward pass keeps, one number for each channel. torch's op yields them together
with the normalized images; with the images as the result of a step of their own, whoever wants these again computes
them from x and the statistics, where x is read anyway.
"""

from __future__ import annotations

import torch

__all__ = ["batch_normalized_op"]

_NAMESPACE = "longhand_norms"


@torch.library.custom_op(f"{_NAMESPACE}::batch_normalized", mutates_args=())
def _batch_normalized(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    rstd: torch.Tensor,
) -> torch.Tensor:
    def by_channel(value: torch.Tensor) -> torch.Tensor:
        return value.reshape([-1 if dim == 1 else 1 for dim in range(x.dim())])

    normalized = (x - by_channel(mean)) * by_channel(rstd)
    if weight is not None:
        normalized = normalized * by_channel(weight)
    if bias is not None:
        normalized = normalized + by_channel(bias)
    return normalized.to(x.dtype)


@_batch_normalized.register_fake
def _(x: torch.Tensor, *_: torch.Tensor | None) -> torch.Tensor:
    return torch.empty_like(x)


batch_normalized_op: torch._ops.OpOverload = getattr(torch.ops, _NAMESPACE).batch_normalized.default
