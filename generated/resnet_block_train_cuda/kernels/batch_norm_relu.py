"""batch_norm_relu: out = relu(batch_norm(conv1_out)).

    ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))

Reads conv1_out once, writes out once; bn1_mean, bn1_rstd, weight and bias stay in cache.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ELEMENTS = 2048  # per program: short rows share one
MAX_COLS = 256  # widest piece of a row
NUM_WARPS = 4


@triton.jit
def nan_maximum(a, b):
    """The larger; NaN if either is, as in PyTorch."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@fast_launch
@triton.jit
def batch_norm_relu_kernel(
    conv1_out_ptr,  # bf16 (n_rows, n_cols) in memory
    bn1_mean_ptr,  # float32 (n_cols,)
    bn1_rstd_ptr,  # float32 (n_cols,)
    weight_ptr,  # bf16 (n_cols,)
    bias_ptr,  # bf16 (n_cols,)
    out_ptr,  # bf16 (n_rows, n_cols) in memory
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

    normalized = (conv1_out - bn1_mean) * bn1_rstd
    tl.store(out_ptr + at, nan_maximum(normalized * weight + bias, 0.0), mask=in_range)


def batch_norm_relu(conv1_out, bn1_mean, bn1_rstd, weight, bias, out, n_rows, n_cols):
    """Fill out."""
    cols = min(MAX_COLS, next_power_of_2(n_cols))
    rows = max(1, ELEMENTS // cols)
    grid = (ceil_div(n_rows, rows), ceil_div(n_cols, cols))
    batch_norm_relu_kernel[grid](
        conv1_out,
        bn1_mean,
        bn1_rstd,
        weight,
        bias,
        out,
        n_rows,
        n_cols,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(conv1_out, bn1_mean, bn1_rstd, weight, bias):
    """What batch_norm_relu() must fill out with."""
    return torch.relu((conv1_out - bn1_mean) * bn1_rstd * weight + bias)
