"""d_batch_norm_relu: d_conv1_out = (less_mean - normalized * through_rstd) * scale, where
    normalized = (conv1_out - bn1_mean) * bn1_rstd
    scale = bn1_rstd * weight
    less_mean = where(normalized * weight + bias <= 0.0, 0.0, d_out) - through_mean

    ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))

Reads conv1_out and d_out once, writes d_conv1_out once; the 6 vectors stay in cache.
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
def d_batch_norm_relu_kernel(
    conv1_out_ptr,  # bf16 (n_rows, n_cols) in memory
    bn1_mean_ptr,  # float32 (n_cols,)
    bn1_rstd_ptr,  # float32 (n_cols,)
    weight_ptr,  # bf16 (n_cols,)
    bias_ptr,  # bf16 (n_cols,)
    d_out_ptr,  # bf16 (n_rows, n_cols) in memory
    through_mean_ptr,  # float32 (n_cols,)
    through_rstd_ptr,  # float32 (n_cols,)
    d_conv1_out_ptr,  # bf16 (n_rows, n_cols) in memory; may be d_out_ptr
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

    conv1_out = tl.load(conv1_out_ptr + at, mask=in_range).to(tl.float32)
    bn1_mean = tl.load(bn1_mean_ptr + col, mask=in_cols)
    bn1_rstd = tl.load(bn1_rstd_ptr + col, mask=in_cols)
    weight = tl.load(weight_ptr + col, mask=in_cols).to(tl.float32)
    bias = tl.load(bias_ptr + col, mask=in_cols).to(tl.float32)
    d_out = tl.load(d_out_ptr + at, mask=in_range).to(tl.float32)
    through_mean = tl.load(through_mean_ptr + col, mask=in_cols)
    through_rstd = tl.load(through_rstd_ptr + col, mask=in_cols)

    normalized = (conv1_out - bn1_mean) * bn1_rstd
    less_mean = tl.where(normalized * weight + bias <= 0.0, 0.0, d_out) - through_mean
    scale = bn1_rstd * weight
    tl.store(d_conv1_out_ptr + at, (less_mean - normalized * through_rstd) * scale, mask=in_range)


def d_batch_norm_relu(
    conv1_out,
    bn1_mean,
    bn1_rstd,
    weight,
    bias,
    d_out,
    through_mean,
    through_rstd,
    d_conv1_out,
    n_rows,
    n_cols,
):
    """Fill d_conv1_out."""
    cols = min(MAX_COLS, next_power_of_2(n_cols))
    rows = max(1, ELEMENTS // cols)
    grid = (ceil_div(n_rows, rows), ceil_div(n_cols, cols))
    d_batch_norm_relu_kernel[grid](
        conv1_out,
        bn1_mean,
        bn1_rstd,
        weight,
        bias,
        d_out,
        through_mean,
        through_rstd,
        d_conv1_out,
        n_rows,
        n_cols,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(conv1_out, bn1_mean, bn1_rstd, weight, bias, d_out, through_mean, through_rstd):
    """What d_batch_norm_relu() must fill d_conv1_out with."""
    normalized = (conv1_out - bn1_mean) * bn1_rstd
    less_means = (
        torch.where(normalized * weight + bias <= 0.0, 0.0, d_out) - through_mean - normalized * through_rstd
    )
    return less_means * (bn1_rstd * weight)
