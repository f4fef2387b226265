"""add: out = h + mlp_out.

    LlamaBlock.forward    return h + self.mlp(self.mlp_norm(h))

Reads h and mlp_out once, writes out once.
"""

import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch

# Tunables.
BLOCK = 1024  # elements per program
NUM_WARPS = 4


@fast_launch
@triton.jit
def add_kernel(
    h_ptr,  # bf16 (n_elements,)
    mlp_out_ptr,  # bf16 (n_elements,)
    out_ptr,  # bf16 (n_elements,); may be mlp_out_ptr
    n_elements,
    BLOCK: tl.constexpr,
):
    """Each program computes BLOCK elements; arithmetic in float32."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    in_range = i < n_elements

    h = tl.load(h_ptr + i, mask=in_range).to(tl.float32)
    mlp_out = tl.load(mlp_out_ptr + i, mask=in_range).to(tl.float32)
    tl.store(out_ptr + i, h + mlp_out, mask=in_range)


def add(h, mlp_out, out, n_elements):
    """Fill out."""
    add_kernel[(ceil_div(n_elements, BLOCK),)](
        h,
        mlp_out,
        out,
        n_elements,
        BLOCK=BLOCK,
        num_warps=NUM_WARPS,
    )


def reference(h, mlp_out):
    """What add() must fill out with."""
    return h + mlp_out
