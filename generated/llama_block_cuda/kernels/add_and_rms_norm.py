"""add_and_rms_norm: h = x + attention_out; normed = h * rsqrt(mean(h**2) + eps) * weight, row by row.

    LlamaBlock.forward    h = x + self.attention(self.attention_norm(x))
    RMSNorm.forward    return normed.to(x.dtype) * self.weight

Reads x and attention_out once, writes h and normed once; weight stays in cache.
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
def add_and_rms_norm_kernel(
    x_ptr,  # bf16 (n_rows, n_cols)
    attention_out_ptr,  # bf16 (n_rows, n_cols)
    weight_ptr,  # bf16 (n_cols,)
    h_ptr,  # bf16 (n_rows, n_cols)
    normed_ptr,  # bf16 (n_rows, n_cols); may be attention_out_ptr
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
    attention_out = tl.load(attention_out_ptr + at, mask=in_range, other=0.0).to(tl.float32)

    h = x + attention_out
    sum_of_squares = tl.sum(h * h, axis=1, keep_dims=True)
    mean_square = sum_of_squares / n_cols

    weight = tl.load(weight_ptr + col, mask=in_cols).to(tl.float32)

    tl.store(h_ptr + at, h, mask=in_range)
    tl.store(normed_ptr + at, h * tl.rsqrt(mean_square + eps) * weight, mask=in_range)


def add_and_rms_norm(x, attention_out, weight, h, normed, n_rows, n_cols, eps):
    """Fill h and normed."""
    cols = next_power_of_2(n_cols)
    rows = max(1, ELEMENTS // cols)
    add_and_rms_norm_kernel[(ceil_div(n_rows, rows),)](
        x,
        attention_out,
        weight,
        h,
        normed,
        n_rows,
        n_cols,
        eps,
        ROWS=rows,
        COLS=cols,
        num_warps=ceil_div(rows * cols, WARP_ELEMENTS),
    )


def reference(x, attention_out, weight, eps):
    """What add_and_rms_norm() must fill h and normed with."""
    h = x + attention_out
    return h, h * torch.rsqrt(torch.mean(h * h, -1, keepdim=True) + eps) * weight
