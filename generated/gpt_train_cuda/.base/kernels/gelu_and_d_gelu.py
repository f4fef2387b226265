"""gelu_and_d_gelu: hidden = gelu(widen); d_widen = d_gelu(d_hidden, widen).

    Mlp.forward    hidden = F.gelu(self.widen(x), approximate="tanh")

Reads widen and d_hidden once, writes hidden and d_widen once.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, libdevice

TWO_SQRT_2_OVER_PI = tl.constexpr(1.5957691216057308)

# Tunables.
BLOCK = 1024  # elements per program
NUM_WARPS = 4


@fast_launch
@triton.jit
def gelu_and_d_gelu_kernel(
    widen_ptr,  # bf16 (n_elements,)
    d_hidden_ptr,  # bf16 (n_elements,)
    hidden_ptr,  # bf16 (n_elements,)
    d_widen_ptr,  # bf16 (n_elements,); may be d_hidden_ptr
    n_elements,
    BLOCK: tl.constexpr,
):
    """Each program computes BLOCK elements; arithmetic in float32."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    in_range = i < n_elements

    widen = tl.load(widen_ptr + i, mask=in_range).to(tl.float32)
    d_hidden = tl.load(d_hidden_ptr + i, mask=in_range).to(tl.float32)

    widen_squared = widen * widen
    cubic = widen + widen_squared * widen * 0.044715
    mlp_tanh = libdevice.tanh(cubic * 0.7978845608028654)
    product = widen * 0.5 * (1.0 - mlp_tanh * mlp_tanh)
    scaled = (widen_squared * 0.134145 + 1.0) * 0.7978845608028654

    tl.store(hidden_ptr + i, widen * tl.sigmoid(cubic * TWO_SQRT_2_OVER_PI), mask=in_range)
    tl.store(d_widen_ptr + i, d_hidden * ((mlp_tanh + 1.0) * 0.5 + product * scaled), mask=in_range)


def gelu_and_d_gelu(widen, d_hidden, hidden, d_widen, n_elements):
    """Fill hidden and d_widen."""
    gelu_and_d_gelu_kernel[(ceil_div(n_elements, BLOCK),)](
        widen,
        d_hidden,
        hidden,
        d_widen,
        n_elements,
        BLOCK=BLOCK,
        num_warps=NUM_WARPS,
    )


def reference(widen, d_hidden):
    """What gelu_and_d_gelu() must fill hidden and d_widen with."""
    widen_squared = widen * widen
    cubic = widen + widen_squared * widen * 0.044715
    mlp_tanh = torch.tanh(cubic * 0.7978845608028654)
    product = (
        widen * 0.5 * (1.0 - mlp_tanh * mlp_tanh) * ((widen_squared * 0.134145 + 1.0) * 0.7978845608028654)
    )
    return widen * torch.sigmoid(cubic * 1.5957691216057308), d_hidden * ((mlp_tanh + 1.0) * 0.5 + product)
