"""gelu: hidden = gelu(widen_out).

    Mlp.forward    hidden = F.gelu(self.widen(x), approximate="tanh")

Reads widen_out once, writes hidden once.
"""

import torch.nn.functional as F
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch

TWO_SQRT_2_OVER_PI = tl.constexpr(1.5957691216057308)

# Tunables.
BLOCK = 1024  # elements per program
NUM_WARPS = 4


@fast_launch
@triton.jit
def gelu_kernel(
    widen_out_ptr,  # bf16 (n_elements,)
    hidden_ptr,  # bf16 (n_elements,)
    n_elements,
    BLOCK: tl.constexpr,
):
    """Each program computes BLOCK elements; arithmetic in float32."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    in_range = i < n_elements

    widen_out = tl.load(widen_out_ptr + i, mask=in_range).to(tl.float32)
    cubic = widen_out + widen_out * widen_out * widen_out * 0.044715
    tl.store(hidden_ptr + i, widen_out * tl.sigmoid(cubic * TWO_SQRT_2_OVER_PI), mask=in_range)


def gelu(widen_out, hidden, n_elements):
    """Fill hidden."""
    gelu_kernel[(ceil_div(n_elements, BLOCK),)](
        widen_out,
        hidden,
        n_elements,
        BLOCK=BLOCK,
        num_warps=NUM_WARPS,
    )


def reference(widen_out):
    """What gelu() must fill hidden with."""
    return F.gelu(widen_out, approximate="tanh")
