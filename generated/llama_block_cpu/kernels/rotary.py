"""rotary: rotary_q = q * rotary_cos + rotate_half(q) * rotary_sin.

The kernel is rotary.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

rotary = load_kernel("rotary.cpp")


def reference(q, rotary_cos, rotary_sin, half):
    """What rotary() must fill rotary_q with."""
    rotated = torch.cat([-q[..., half:], q[..., :half]], dim=-1)
    return q * rotary_cos + rotated * rotary_sin
