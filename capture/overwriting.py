"""A value that was written over another one: with regard to that one its gradient is zeros, not none.

Autograd looks at tensors: what ``y.copy_(z)`` or ``y.zero_()`` overwrites has a gradient from then on, whatever it
held, and a parameter with a gradient of zeros is decayed by an optimizer, one without is left alone. A functional graph
has nothing of what was overwritten, so one that is to be differentiated says it with an op, which is the value itself.
"""

from __future__ import annotations

import torch

__all__ = ["overwriting_op"]

_NAMESPACE = "longhand_overwriting"


@torch.library.custom_op(f"{_NAMESPACE}::overwriting", mutates_args=())
def _overwriting(value: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    return value.clone()


@_overwriting.register_fake
def _(value: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


overwriting_op: torch._ops.OpOverload = getattr(torch.ops, _NAMESPACE).overwriting.default
