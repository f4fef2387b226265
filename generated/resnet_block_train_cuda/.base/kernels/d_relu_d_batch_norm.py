"""d_relu_d_batch_norm: d_conv1 = (where(out <= 0.0, 0.0, d_out) - through_mean - normalized * through_rstd) *
scale, where
    normalized = (conv1 - bn1_mean) * bn1_rstd
    scale = bn1_rstd * weight

    ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))

Reads out, d_out and conv1 once, writes d_conv1 once; through_mean, bn1_mean, bn1_rstd, through_rstd and
weight stay in cache.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ELEMENTS = 2048  # per program: short rows share one
MAX_COLS = 256  # widest piece of a row
NUM_WARPS = 4


@fast_launch
@triton.jit
def d_relu_d_batch_norm_kernel(
    out_ptr,  # bf16 (n_rows, n_cols) in memory
    d_out_ptr,  # bf16 (n_rows, n_cols) in memory
    through_mean_ptr,  # float32 (n_cols,)
    conv1_ptr,  # bf16 (n_rows, n_cols) in memory
    bn1_mean_ptr,  # float32 (n_cols,)
    bn1_rstd_ptr,  # float32 (n_cols,)
    through_rstd_ptr,  # float32 (n_cols,)
    weight_ptr,  # bf16 (n_cols,)
    d_conv1_ptr,  # bf16 (n_rows, n_cols) in memory
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

    out = tl.load(out_ptr + at, mask=in_range).to(tl.float32)
    d_out = tl.load(d_out_ptr + at, mask=in_range).to(tl.float32)
    through_mean = tl.load(through_mean_ptr + col, mask=in_cols)
    conv1 = tl.load(conv1_ptr + at, mask=in_range).to(tl.float32)
    bn1_mean = tl.load(bn1_mean_ptr + col, mask=in_cols)
    bn1_rstd = tl.load(bn1_rstd_ptr + col, mask=in_cols)
    through_rstd = tl.load(through_rstd_ptr + col, mask=in_cols)
    weight = tl.load(weight_ptr + col, mask=in_cols).to(tl.float32)

    less_mean = tl.where(out <= 0.0, 0.0, d_out) - through_mean
    normalized = (conv1 - bn1_mean) * bn1_rstd
    scale = bn1_rstd * weight
    tl.store(d_conv1_ptr + at, (less_mean - normalized * through_rstd) * scale, mask=in_range)


def d_relu_d_batch_norm(
    out, d_out, through_mean, conv1, bn1_mean, bn1_rstd, through_rstd, weight, d_conv1, n_rows, n_cols
):
    """Fill d_conv1."""
    cols = min(MAX_COLS, next_power_of_2(n_cols))
    rows = max(1, ELEMENTS // cols)
    grid = (ceil_div(n_rows, rows), ceil_div(n_cols, cols))
    d_relu_d_batch_norm_kernel[grid](
        out,
        d_out,
        through_mean,
        conv1,
        bn1_mean,
        bn1_rstd,
        through_rstd,
        weight,
        d_conv1,
        n_rows,
        n_cols,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(out, d_out, through_mean, conv1, bn1_mean, bn1_rstd, through_rstd, weight):
    """What d_relu_d_batch_norm() must fill d_conv1 with."""
    less_means = (
        torch.where(out <= 0.0, 0.0, d_out) - through_mean - (conv1 - bn1_mean) * bn1_rstd * through_rstd
    )
    return less_means * (bn1_rstd * weight)
