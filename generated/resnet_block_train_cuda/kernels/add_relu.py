"""add_relu: activated = relu(bn2 + shortcut).

    ResNetBlock.forward    out = out + self.shortcut(x)
    ResNetBlock.forward    return F.relu(out)

Reads bn2 and shortcut once, writes activated once.
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
def add_relu_kernel(
    bn2_ptr,  # bf16 (n_elements,)
    shortcut_ptr,  # bf16 (n_elements,)
    activated_ptr,  # bf16 (n_elements,)
    n_elements,
    BLOCK: tl.constexpr,
):
    """Each program computes BLOCK elements; arithmetic in float32."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    in_range = i < n_elements

    bn2 = tl.load(bn2_ptr + i, mask=in_range).to(tl.float32)
    shortcut = tl.load(shortcut_ptr + i, mask=in_range).to(tl.float32)
    out = bn2 + shortcut
    tl.store(activated_ptr + i, nan_maximum(out, 0.0), mask=in_range)


def add_relu(bn2, shortcut, activated, n_elements):
    """Fill activated."""
    add_relu_kernel[(ceil_div(n_elements, BLOCK),)](
        bn2,
        shortcut,
        activated,
        n_elements,
        BLOCK=BLOCK,
        num_warps=NUM_WARPS,
    )


def reference(bn2, shortcut):
    """What add_relu() must fill activated with."""
    return torch.relu(bn2 + shortcut)
