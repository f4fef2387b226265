"""rotary: out = x * cos + rotate_half(x) * sin.

The kernel is rotary.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

rotary = load_kernel("rotary.cpp")


def reference(x, cos, sin, half):
    """What rotary() must fill out with."""
    rotated = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * cos + rotated * sin
