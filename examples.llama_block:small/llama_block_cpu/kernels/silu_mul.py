"""silu_mul: gated = silu(gate_proj) * up_proj. Built from silu_mul.cpp."""

import torch.nn.functional as F

from ..runtime import load_kernel

silu_mul = load_kernel("silu_mul.cpp")


def reference(gate_proj, up_proj):
    """What silu_mul() must fill gated with."""
    return F.silu(gate_proj) * up_proj
