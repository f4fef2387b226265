"""add_gradients: d_x = d_x_from_shortcut + d_x_from_conv1.

    ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))

Reads d_x_from_shortcut and d_x_from_conv1 once, writes d_x once.
"""

import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch

# Tunables.
BLOCK = 1024  # elements per program
NUM_WARPS = 4


@fast_launch
@triton.jit
def add_gradients_kernel(
    d_x_from_shortcut_ptr,  # bf16 (n_elements,)
    d_x_from_conv1_ptr,  # bf16 (n_elements,)
    d_x_ptr,  # bf16 (n_elements,)
    n_elements,
    BLOCK: tl.constexpr,
):
    """Each program computes BLOCK elements; arithmetic in float32."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    in_range = i < n_elements

    d_x_from_shortcut = tl.load(d_x_from_shortcut_ptr + i, mask=in_range).to(tl.float32)
    d_x_from_conv1 = tl.load(d_x_from_conv1_ptr + i, mask=in_range).to(tl.float32)
    tl.store(d_x_ptr + i, d_x_from_shortcut + d_x_from_conv1, mask=in_range)


def add_gradients(d_x_from_shortcut, d_x_from_conv1, d_x, n_elements):
    """Fill d_x."""
    add_gradients_kernel[(ceil_div(n_elements, BLOCK),)](
        d_x_from_shortcut,
        d_x_from_conv1,
        d_x,
        n_elements,
        BLOCK=BLOCK,
        num_warps=NUM_WARPS,
    )


def reference(d_x_from_shortcut, d_x_from_conv1):
    """What add_gradients() must fill d_x with."""
    return d_x_from_shortcut + d_x_from_conv1
