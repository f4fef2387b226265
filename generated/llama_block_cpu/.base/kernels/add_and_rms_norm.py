"""add_and_rms_norm: h = x + attention_out; normed = h * rsqrt(mean(h**2) + eps) * weight, row by row.

The kernel is add_and_rms_norm.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

add_and_rms_norm = load_kernel("add_and_rms_norm.cpp")


def reference(x, attention_out, weight, eps):
    """What add_and_rms_norm() must fill h and normed with."""
    h = x + attention_out
    return h, h * torch.rsqrt(torch.mean(h * h, -1, keepdim=True) + eps) * weight
