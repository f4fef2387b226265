"""silu_mul: product = silu(a) * b.

The kernel is silu_mul.cpp, built when it changes.
"""

import torch.nn.functional as F

from ..runtime import load_kernel

silu_mul = load_kernel("silu_mul.cpp")


def reference(a, b):
    """What silu_mul() must fill product with."""
    return F.silu(a) * b
