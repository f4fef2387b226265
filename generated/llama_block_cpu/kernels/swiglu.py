"""swiglu: gated = silu(gate_proj) * up_proj.

The kernel is swiglu.cpp, built when it changes.
"""

import torch.nn.functional as F

from ..runtime import load_kernel

swiglu = load_kernel("swiglu.cpp")


def reference(gate_proj, up_proj):
    """What swiglu() must fill gated with."""
    return F.silu(gate_proj) * up_proj
