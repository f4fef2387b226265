"""layer_norm_and_d_add_layer_norm: ln_2 = layer_norm(x); normalized = normalize(x); d_out = d_x +
d_layer_norm(d_ln_2, x), row by row.

    Block.forward    return x + self.mlp(self.ln_2(x))

Reads x, d_x and d_ln_2 once, writes ln_2, normalized and d_out once; weight and bias stay in cache.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ELEMENTS = 8192  # per program: short rows share one
PROGRAMS = 4096  # at least, where there are rows for them
NUM_WARPS = 8


@fast_launch
@triton.jit
def layer_norm_and_d_add_layer_norm_kernel(
    x_ptr,  # bf16 (n_rows, n_cols)
    weight_ptr,  # bf16 (n_cols,)
    bias_ptr,  # bf16 (n_cols,)
    d_x_ptr,  # bf16 (n_rows, n_cols)
    d_ln_2_ptr,  # bf16 (n_rows, n_cols)
    ln_2_ptr,  # bf16 (n_rows, n_cols)
    normalized_ptr,  # bf16 (n_rows, n_cols)
    d_out_ptr,  # bf16 (n_rows, n_cols); may be d_x_ptr
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
    d_x = tl.load(d_x_ptr + at, mask=in_range).to(tl.float32)
    d_ln_2 = tl.load(d_ln_2_ptr + at, mask=in_range, other=0.0).to(tl.float32)

    row_sum = tl.sum(x, axis=1, keep_dims=True)
    mean = row_sum / n_cols
    centered = tl.where(in_cols, x - mean, 0.0)
    sum_of_squares = tl.sum(centered * centered, axis=1, keep_dims=True)
    variance = sum_of_squares / n_cols
    rstd = tl.rsqrt(variance + eps)
    normalized = centered * rstd

    weight = tl.load(weight_ptr + col, mask=in_cols, other=0.0).to(tl.float32)

    d_normalized = d_ln_2 * weight
    sum_of_products = tl.sum(tl.where(in_cols, d_normalized * normalized, 0.0), axis=1, keep_dims=True)
    through_rstd = sum_of_products / n_cols
    d_normalized_sum = tl.sum(d_normalized, axis=1, keep_dims=True)
    through_mean = d_normalized_sum / n_cols
    product = (d_normalized - normalized * through_rstd - through_mean) * rstd

    bias = tl.load(bias_ptr + col, mask=in_cols).to(tl.float32)

    tl.store(ln_2_ptr + at, normalized * weight + bias, mask=in_range)
    tl.store(normalized_ptr + at, normalized, mask=in_range)
    tl.store(d_out_ptr + at, d_x + product, mask=in_range)


def layer_norm_and_d_add_layer_norm(
    x, weight, bias, d_x, d_ln_2, ln_2, normalized, d_out, n_rows, n_cols, eps
):
    """Fill ln_2, normalized and d_out."""
    cols = next_power_of_2(n_cols)
    rows = max(1, min(ELEMENTS // cols, next_power_of_2(n_rows) // PROGRAMS))
    layer_norm_and_d_add_layer_norm_kernel[(ceil_div(n_rows, rows),)](
        x,
        weight,
        bias,
        d_x,
        d_ln_2,
        ln_2,
        normalized,
        d_out,
        n_rows,
        n_cols,
        eps,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(x, weight, bias, d_x, d_ln_2, n_cols, eps):
    """What layer_norm_and_d_add_layer_norm() must fill ln_2, normalized and d_out with."""
    centered = x - x.sum(-1, keepdim=True) / n_cols
    rstd = torch.rsqrt((centered * centered).sum(-1, keepdim=True) / n_cols + eps)
    normalized = centered * rstd
    d_normalized = d_ln_2 * weight
    difference = (
        d_normalized
        - normalized * torch.mean(d_normalized * normalized, -1, keepdim=True)
        - torch.mean(d_normalized, -1, keepdim=True)
    )
    return normalized * weight + bias, normalized, d_x + difference * rstd
