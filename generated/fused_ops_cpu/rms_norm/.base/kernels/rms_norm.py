"""rms_norm: normed = rms_norm(x), row by row.

The kernel is rms_norm.cpp, built when it changes.
"""

import torch.nn.functional as F

from ..runtime import load_kernel

rms_norm = load_kernel("rms_norm.cpp")


def reference(x, weight, eps):
    """What rms_norm() must fill normed with."""
    return F.rms_norm(x, weight.shape, weight, eps)
