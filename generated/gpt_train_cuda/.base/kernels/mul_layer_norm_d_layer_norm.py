"""mul_layer_norm_d_layer_norm: mul, layer norm, mean and sub in one pass, from gpt_targets and x to d_ln_f,
d_x and gpt_x_13, row by row.

    GPT.forward    return self.head(self.ln_f(x))

Reads gpt_targets and x once, writes d_ln_f, d_x and gpt_x_13 once; d_cross_entropy_loss and weight stay in
cache.
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
def mul_layer_norm_d_layer_norm_kernel(
    gpt_targets_ptr,  # bf16 (n_rows, n_cols)
    d_cross_entropy_loss_ptr,  # bf16, one element
    weight_ptr,  # bf16 (n_cols,)
    x_ptr,  # bf16 (n_rows, n_cols)
    d_ln_f_ptr,  # bf16 (n_rows, n_cols)
    d_x_ptr,  # bf16 (n_rows, n_cols)
    gpt_x_13_ptr,  # bf16 (n_rows, n_cols)
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

    gpt_targets = tl.load(gpt_targets_ptr + at, mask=in_range, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + at, mask=in_range, other=0.0).to(tl.float32)
    d_cross_entropy_loss = tl.load(d_cross_entropy_loss_ptr).to(tl.float32)

    d_ln_f = gpt_targets * d_cross_entropy_loss

    weight = tl.load(weight_ptr + col, mask=in_cols, other=0.0).to(tl.float32)

    product = d_ln_f * weight
    row_sum = tl.sum(x, axis=1, keep_dims=True)
    mean = row_sum / n_cols
    centered = tl.where(in_cols, x - mean, 0.0)
    sum_of_squares = tl.sum(centered * centered, axis=1, keep_dims=True)
    variance = sum_of_squares / n_cols
    rstd = tl.rsqrt(variance + eps)
    gpt_x_13 = centered * rstd
    ln_f_sum = tl.sum(tl.where(in_cols, product * gpt_x_13, 0.0), axis=1, keep_dims=True)
    product_sum = tl.sum(tl.where(in_cols, product, 0.0), axis=1, keep_dims=True)
    difference = product - gpt_x_13 * (ln_f_sum / n_cols) - product_sum / n_cols

    tl.store(d_ln_f_ptr + at, d_ln_f, mask=in_range)
    tl.store(d_x_ptr + at, difference * rstd, mask=in_range)
    tl.store(gpt_x_13_ptr + at, gpt_x_13, mask=in_range)


def mul_layer_norm_d_layer_norm(
    gpt_targets, d_cross_entropy_loss, weight, x, d_ln_f, d_x, gpt_x_13, n_rows, n_cols, eps
):
    """Fill d_ln_f, d_x and gpt_x_13."""
    cols = next_power_of_2(n_cols)
    rows = max(1, min(ELEMENTS // cols, next_power_of_2(n_rows) // PROGRAMS))
    mul_layer_norm_d_layer_norm_kernel[(ceil_div(n_rows, rows),)](
        gpt_targets,
        d_cross_entropy_loss,
        weight,
        x,
        d_ln_f,
        d_x,
        gpt_x_13,
        n_rows,
        n_cols,
        eps,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(gpt_targets, d_cross_entropy_loss, weight, x, n_cols, eps):
    """What mul_layer_norm_d_layer_norm() must fill d_ln_f, d_x and gpt_x_13 with."""
    d_ln_f = gpt_targets * d_cross_entropy_loss
    product = d_ln_f * weight
    centered = x - x.sum(-1, keepdim=True) / n_cols
    rstd = torch.rsqrt((centered * centered).sum(-1, keepdim=True) / n_cols + eps)
    gpt_x_13 = centered * rstd
    difference = (
        product
        - gpt_x_13 * torch.mean(product * gpt_x_13, -1, keepdim=True)
        - torch.mean(product, -1, keepdim=True)
    )
    return d_ln_f, difference * rstd, gpt_x_13
