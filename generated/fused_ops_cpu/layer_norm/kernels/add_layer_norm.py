"""add_layer_norm: normed = layer_norm(x + r), row by row.

The kernel is add_layer_norm.cpp, built when it changes.
"""

import torch.nn.functional as F

from ..runtime import load_kernel

add_layer_norm = load_kernel("add_layer_norm.cpp")


def reference(x, r, weight, bias, eps):
    """What add_layer_norm() must fill normed with."""
    return F.layer_norm(x + r, weight.shape, weight, bias, eps)
