"""d_layer_norm: d_ln_f = unscaled_d_ln_f * d_loss; d_x = d_layer_norm(d_ln_f, x); normalized = normalize(x),
row by row.

    GPT.forward    return self.head(self.ln_f(x))

Reads unscaled_d_ln_f and x once, writes d_ln_f, d_x and normalized once; d_loss and weight stay in cache.
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
def d_layer_norm_kernel(
    unscaled_d_ln_f_ptr,  # bf16 (n_rows, n_cols)
    d_loss_ptr,  # bf16, one element
    weight_ptr,  # bf16 (n_cols,)
    x_ptr,  # bf16 (n_rows, n_cols)
    d_ln_f_ptr,  # bf16 (n_rows, n_cols)
    d_x_ptr,  # bf16 (n_rows, n_cols)
    normalized_ptr,  # bf16 (n_rows, n_cols)
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

    unscaled_d_ln_f = tl.load(unscaled_d_ln_f_ptr + at, mask=in_range, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + at, mask=in_range, other=0.0).to(tl.float32)
    d_loss = tl.load(d_loss_ptr).to(tl.float32)
    d_ln_f = unscaled_d_ln_f * d_loss

    weight = tl.load(weight_ptr + col, mask=in_cols, other=0.0).to(tl.float32)

    d_normalized = d_ln_f * weight
    row_sum = tl.sum(x, axis=1, keep_dims=True)
    mean = row_sum / n_cols
    centered = tl.where(in_cols, x - mean, 0.0)
    sum_of_squares = tl.sum(centered * centered, axis=1, keep_dims=True)
    variance = sum_of_squares / n_cols
    rstd = tl.rsqrt(variance + eps)
    normalized = centered * rstd
    sum_of_products = tl.sum(tl.where(in_cols, d_normalized * normalized, 0.0), axis=1, keep_dims=True)
    through_rstd = sum_of_products / n_cols
    d_normalized_sum = tl.sum(tl.where(in_cols, d_normalized, 0.0), axis=1, keep_dims=True)
    through_mean = d_normalized_sum / n_cols

    tl.store(d_ln_f_ptr + at, d_ln_f, mask=in_range)
    tl.store(d_x_ptr + at, (d_normalized - normalized * through_rstd - through_mean) * rstd, mask=in_range)
    tl.store(normalized_ptr + at, normalized, mask=in_range)


def d_layer_norm(unscaled_d_ln_f, d_loss, weight, x, d_ln_f, d_x, normalized, n_rows, n_cols, eps):
    """Fill d_ln_f, d_x and normalized."""
    cols = next_power_of_2(n_cols)
    rows = max(1, min(ELEMENTS // cols, next_power_of_2(n_rows) // PROGRAMS))
    d_layer_norm_kernel[(ceil_div(n_rows, rows),)](
        unscaled_d_ln_f,
        d_loss,
        weight,
        x,
        d_ln_f,
        d_x,
        normalized,
        n_rows,
        n_cols,
        eps,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(unscaled_d_ln_f, d_loss, weight, x, n_cols, eps):
    """What d_layer_norm() must fill d_ln_f, d_x and normalized with."""
    d_ln_f = unscaled_d_ln_f * d_loss
    d_normalized = d_ln_f * weight
    centered = x - x.sum(-1, keepdim=True) / n_cols
    rstd = torch.rsqrt((centered * centered).sum(-1, keepdim=True) / n_cols + eps)
    normalized = centered * rstd
    difference = (
        d_normalized
        - normalized * torch.mean(d_normalized * normalized, -1, keepdim=True)
        - torch.mean(d_normalized, -1, keepdim=True)
    )
    return d_ln_f, difference * rstd, normalized
