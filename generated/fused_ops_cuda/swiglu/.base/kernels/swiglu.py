"""swiglu: gated = silu(a) * b.

    swiglu    return F.silu(a) * b

Reads a and b once, writes gated once.
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
    a_ptr,  # bf16 (n_elements,)
    b_ptr,  # bf16 (n_elements,)
    gated_ptr,  # bf16 (n_elements,)
    n_elements,
    BLOCK: tl.constexpr,
):
    """Each program computes BLOCK elements; arithmetic in float32."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    in_range = i < n_elements

    a = tl.load(a_ptr + i, mask=in_range).to(tl.float32)
    b = tl.load(b_ptr + i, mask=in_range).to(tl.float32)
    tl.store(gated_ptr + i, a * tl.sigmoid(a) * b, mask=in_range)


def swiglu(a, b, gated, n_elements):
    """Fill gated."""
    swiglu_kernel[(ceil_div(n_elements, BLOCK),)](
        a,
        b,
        gated,
        n_elements,
        BLOCK=BLOCK,
        num_warps=NUM_WARPS,
    )


def reference(a, b):
    """What swiglu() must fill gated with."""
    return F.silu(a) * b
