"""swiglu: gated = silu(a) * b.

The kernel is swiglu.cpp, built when it changes.
"""

import torch.nn.functional as F

from ..runtime import load_kernel

swiglu = load_kernel("swiglu.cpp")


def reference(a, b):
    """What swiglu() must fill gated with."""
    return F.silu(a) * b
