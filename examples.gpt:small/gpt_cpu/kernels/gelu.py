"""gelu: hidden = gelu(widen, approximate="tanh"). Built from gelu.cpp."""

import torch.nn.functional as F

from ..runtime import load_kernel

gelu = load_kernel("gelu.cpp")


def reference(widen):
    """What gelu() must fill hidden with."""
    return F.gelu(widen, approximate="tanh")
