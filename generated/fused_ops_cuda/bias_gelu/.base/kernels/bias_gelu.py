"""bias_gelu: activated = gelu(x + bias).

    bias_gelu    return F.gelu(x + bias)

Reads x once, writes activated once; bias stays in cache.
"""

import torch.nn.functional as F
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

SQRT_HALF = tl.constexpr(2**-0.5)

# Tunables.
ELEMENTS = 2048  # per program: short rows share one
MAX_COLS = 256  # widest piece of a row
NUM_WARPS = 4


@fast_launch
@triton.jit
def bias_gelu_kernel(
    x_ptr,  # bf16 (n_rows, n_cols)
    bias_ptr,  # bf16 (n_cols,)
    activated_ptr,  # bf16 (n_rows, n_cols)
    n_rows,
    n_cols,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program computes a block of ROWS x COLS elements; arithmetic in float32."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    in_cols = col < n_cols
    in_range = (row < n_rows) & in_cols
    at = row * n_cols + col

    x = tl.load(x_ptr + at, mask=in_range).to(tl.float32)
    bias = tl.load(bias_ptr + col, mask=in_cols).to(tl.float32)
    biased = x + bias
    tl.store(activated_ptr + at, biased * 0.5 * (tl.erf(biased * SQRT_HALF) + 1.0), mask=in_range)


def bias_gelu(x, bias, activated, n_rows, n_cols):
    """Fill activated."""
    cols = min(MAX_COLS, next_power_of_2(n_cols))
    rows = max(1, ELEMENTS // cols)
    grid = (ceil_div(n_rows, rows), ceil_div(n_cols, cols))
    bias_gelu_kernel[grid](
        x,
        bias,
        activated,
        n_rows,
        n_cols,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(x, bias):
    """What bias_gelu() must fill activated with."""
    return F.gelu(x + bias)
