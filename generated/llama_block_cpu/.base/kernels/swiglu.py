"""swiglu: gated = silu(gate_proj_out) * up_proj_out.

The kernel is swiglu.cpp, built when it changes.
"""

import torch.nn.functional as F

from ..runtime import load_kernel

swiglu = load_kernel("swiglu.cpp")


def reference(gate_proj_out, up_proj_out):
    """What swiglu() must fill gated with."""
    return F.silu(gate_proj_out) * up_proj_out
