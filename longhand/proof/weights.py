"""Weights that tell layers apart: as a model is made, its layers' norms are all ones and its biases zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

_CHANGED = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_CHANGE = 0.1  # of a tensor's own scale: a model that works goes on working


def told_apart(model: Callable[..., Any]) -> None:
    """Changes every parameter and buffer of a module a little, each by other random numbers; drawn from torch's own.

    Of buffers only floats; infinities stay where they are. What a unit holds as constants (buffers that are in no
    state_dict) stays, too.
    """
    if not isinstance(model, nn.Module):
        return
    kept = set(model.state_dict(keep_vars=True))
    named = [*model.named_parameters(), *model.named_buffers()]
    with torch.no_grad():
        for name, tensor in named:
            if name in kept and tensor.dtype in _CHANGED and tensor.numel():
                finite = torch.where(tensor.isfinite(), tensor.float(), 0.0)
                scale = float(finite.abs().mean()) or _CHANGE
                changed = finite * (1 + _CHANGE * torch.rand_like(finite))
                noise = _CHANGE * scale * torch.rand_like(finite)  # positive: a variance stays one
                tensor.copy_(torch.where(tensor.isfinite(), changed + noise, tensor))
