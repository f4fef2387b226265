"""Whether a module computes otherwise in training than in eval mode: then a unit is for the mode it was captured in."""

from __future__ import annotations

from types import CodeType
from typing import Any

from torch import nn

__all__ = ["mode_of"]

_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
_NORMS = (
    *(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm),
    *(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d),
)


def mode_of(model: Any) -> bool | None:
    """Whether a model is in training mode; None where that makes no difference, or it is no module.

    Code of the user's that reads `training` is taken to make one.
    """
    if not isinstance(model, nn.Module):
        return None
    is_different = any(part.training == model.training and _depends(part) for part in model.modules())
    return model.training if is_different else None


def _depends(part: nn.Module) -> bool:
    if isinstance(part, _DROPOUTS):
        return part.p > 0
    if isinstance(part, _NORMS):
        return part.track_running_stats
    if isinstance(part, nn.RNNBase):
        return part.dropout > 0
    if isinstance(part, nn.MultiheadAttention):
        return part.dropout > 0
    if isinstance(part, nn.RReLU):
        return True
    own = [kind for kind in type(part).__mro__ if not kind.__module__.startswith("torch.")]
    functions = [value for kind in own for value in vars(kind).values() if hasattr(value, "__code__")]
    return any(_reads_mode(function.__code__) for function in functions)


def _reads_mode(code: CodeType) -> bool:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return "training" in code.co_names or any(map(_reads_mode, inner))
