"""rotary: rotary_q = q * cos + rotate_half(q) * sin.

The kernel is rotary.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

rotary = load_kernel("rotary.cpp")


def reference(q, cos, sin, half):
    """What rotary() must fill rotary_q with."""
    rotated = torch.cat([-q[..., half:], q[..., :half]], dim=-1)
    return q * cos + rotated * sin
