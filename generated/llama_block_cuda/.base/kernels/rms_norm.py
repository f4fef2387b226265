"""rms_norm: normed = x * rsqrt(mean(x**2) + eps) * weight, row by row.

    RMSNorm.forward    x_float = x.float()
    RMSNorm.forward    mean_square = x_float.pow(2).mean(-1, keepdim=True)
    RMSNorm.forward    normed = x_float * torch.rsqrt(mean_square + self.eps)
    RMSNorm.forward    return normed.to(x.dtype) * self.weight

Reads x once, writes normed once; weight stays in cache.
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
def rms_norm_kernel(
    x_ptr,  # bf16 (n_rows, n_cols)
    weight_ptr,  # bf16 (n_cols,)
    normed_ptr,  # bf16 (n_rows, n_cols)
    n_rows,
    n_cols: tl.constexpr,
    eps: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,  # n_cols, rounded up to a power of two
):
    """Each program keeps ROWS whole rows in registers; arithmetic in float32."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, COLS)[None, :]
    in_cols = col < n_cols
    in_range = (row < n_rows) & in_cols
    at = row * n_cols + col

    x = tl.load(x_ptr + at, mask=in_range, other=0.0).to(tl.float32)
    sum_of_squares = tl.sum(x * x, axis=1, keep_dims=True)
    mean_square = sum_of_squares / n_cols

    weight = tl.load(weight_ptr + col, mask=in_cols).to(tl.float32)
    tl.store(normed_ptr + at, x * tl.rsqrt(mean_square + eps) * weight, mask=in_range)


def rms_norm(x, weight, normed, n_rows, n_cols, eps):
    """Fill normed."""
    cols = next_power_of_2(n_cols)
    rows = max(1, ELEMENTS // cols)
    rms_norm_kernel[(ceil_div(n_rows, rows),)](
        x,
        weight,
        normed,
        n_rows,
        n_cols,
        eps,
        ROWS=rows,
        COLS=cols,
        num_warps=ceil_div(rows * cols, WARP_ELEMENTS),
    )


def reference(x, weight, eps):
    """What rms_norm() must fill normed with."""
    return x * torch.rsqrt(torch.mean(x * x, -1, keepdim=True) + eps) * weight
