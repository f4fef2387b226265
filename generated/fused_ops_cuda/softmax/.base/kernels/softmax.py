"""softmax: weights = softmax(x * 0.125 + w), row by row.

    softmax    scores = x * 0.125 + w
    softmax    return torch.softmax(scores, dim=-1)

Reads x once, writes weights once; w stays in cache.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ELEMENTS = 512  # per program: short rows share one
WARP_ELEMENTS = 1024  # held by each warp


@fast_launch
@triton.jit
def softmax_kernel(
    x_ptr,  # bf16 (n_rows, n_cols)
    w_ptr,  # bf16 (n_cols,)
    weights_ptr,  # bf16 (n_rows, n_cols)
    n_rows,
    n_cols: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,  # n_cols, rounded up to a power of two
):
    """Each program keeps ROWS whole rows in registers; arithmetic in float32."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, COLS)[None, :]
    in_cols = col < n_cols
    in_range = (row < n_rows) & in_cols
    at = row * n_cols + col

    x = tl.load(x_ptr + at, mask=in_range, other=float("-inf")).to(tl.float32)
    w = tl.load(w_ptr + col, mask=in_cols, other=0.0).to(tl.float32)

    scores = x * 0.125 + w
    row_max = tl.max(scores, axis=1, keep_dims=True)
    numerator = tl.exp(scores - row_max)
    denominator = tl.sum(numerator, axis=1, keep_dims=True)

    tl.store(weights_ptr + at, numerator / denominator, mask=in_range)


def softmax(x, w, weights, n_rows, n_cols):
    """Fill weights."""
    cols = next_power_of_2(n_cols)
    rows = max(1, ELEMENTS // cols)
    softmax_kernel[(ceil_div(n_rows, rows),)](
        x,
        w,
        weights,
        n_rows,
        n_cols,
        ROWS=rows,
        COLS=cols,
        num_warps=ceil_div(rows * cols, WARP_ELEMENTS),
    )


def reference(x, w):
    """What softmax() must fill weights with."""
    return torch.softmax(x * 0.125 + w, -1)
