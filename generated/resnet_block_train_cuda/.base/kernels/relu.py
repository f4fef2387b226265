"""relu: out = relu(bn1).

    ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))

Reads bn1 once, writes out once.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch

# Tunables.
BLOCK = 1024  # elements per program
NUM_WARPS = 4


@triton.jit
def nan_maximum(a, b):
    """The larger; NaN if either is, as in PyTorch."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@fast_launch
@triton.jit
def relu_kernel(
    bn1_ptr,  # bf16 (n_elements,)
    out_ptr,  # bf16 (n_elements,)
    n_elements,
    BLOCK: tl.constexpr,
):
    """Each program computes BLOCK elements; arithmetic in float32."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    in_range = i < n_elements

    bn1 = tl.load(bn1_ptr + i, mask=in_range).to(tl.float32)
    tl.store(out_ptr + i, nan_maximum(bn1, 0.0), mask=in_range)


def relu(bn1, out, n_elements):
    """Fill out."""
    relu_kernel[(ceil_div(n_elements, BLOCK),)](
        bn1,
        out,
        n_elements,
        BLOCK=BLOCK,
        num_warps=NUM_WARPS,
    )


def reference(bn1):
    """What relu() must fill out with."""
    return torch.relu(bn1)
