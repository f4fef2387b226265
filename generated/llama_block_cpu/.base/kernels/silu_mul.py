"""silu_mul: gated = silu(gate_proj) * up_proj.

The kernel is silu_mul.cpp, built when it changes.
"""

import torch.nn.functional as F

from ..runtime import load_kernel

silu_mul = load_kernel("silu_mul.cpp")


def reference(gate_proj, up_proj):
    """What silu_mul() must fill gated with."""
    return F.silu(gate_proj) * up_proj
