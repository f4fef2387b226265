"""swiglu: gated = silu(gate_proj_out) * up_proj_out.

    SwiGLU.forward    gated = F.silu(self.gate_proj(x)) * self.up_proj(x)

Reads gate_proj_out and up_proj_out once, writes gated once.
"""

import torch.nn.functional as F
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch

# Tunables.
BLOCK = 1024  # elements per program
NUM_WARPS = 4


@fast_launch
@triton.jit
def swiglu_kernel(
    gate_proj_out_ptr,  # bf16 (n_elements,)
    up_proj_out_ptr,  # bf16 (n_elements,)
    gated_ptr,  # bf16 (n_elements,); may be up_proj_out_ptr
    n_elements,
    BLOCK: tl.constexpr,
):
    """Each program computes BLOCK elements; arithmetic in float32."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    in_range = i < n_elements

    gate_proj_out = tl.load(gate_proj_out_ptr + i, mask=in_range).to(tl.float32)
    up_proj_out = tl.load(up_proj_out_ptr + i, mask=in_range).to(tl.float32)
    tl.store(gated_ptr + i, gate_proj_out * tl.sigmoid(gate_proj_out) * up_proj_out, mask=in_range)


def swiglu(gate_proj_out, up_proj_out, gated, n_elements):
    """Fill gated."""
    swiglu_kernel[(ceil_div(n_elements, BLOCK),)](
        gate_proj_out,
        up_proj_out,
        gated,
        n_elements,
        BLOCK=BLOCK,
        num_warps=NUM_WARPS,
    )


def reference(gate_proj_out, up_proj_out):
    """What swiglu() must fill gated with."""
    return F.silu(gate_proj_out) * up_proj_out
