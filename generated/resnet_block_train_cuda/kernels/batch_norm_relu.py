"""batch_norm_relu: out = relu(batch_norm(conv1)).

    ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))

Reads conv1 once, writes out once; bn1_mean, bn1_rstd, weight and bias stay in cache.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ELEMENTS = 2048  # per program: short rows share one
COLS = 256  # widest piece of a row
NUM_WARPS = 4


@triton.jit
def nan_maximum(a, b):
    """The larger; NaN if either is, as in PyTorch."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@fast_launch
@triton.jit
def batch_norm_relu_kernel(
    conv1_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    bn1_mean_ptr,  # float32 (n_channels,)
    bn1_rstd_ptr,  # float32 (n_channels,)
    weight_ptr,  # bf16 (n_channels,)
    bias_ptr,  # bf16 (n_channels,)
    out_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    n_batches,
    n_channels,
    n_pixels,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program computes a block of ROWS x COLS elements; arithmetic in float32."""
    n_rows = n_batches * n_channels
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    pixel = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    in_rows = row < n_rows
    in_range = in_rows & (pixel < n_pixels)
    channel = row % n_channels
    at = row * n_pixels + pixel

    conv1 = tl.load(conv1_ptr + at, mask=in_range).to(tl.float32)
    bn1_mean = tl.load(bn1_mean_ptr + channel, mask=in_rows)
    bn1_rstd = tl.load(bn1_rstd_ptr + channel, mask=in_rows)
    weight = tl.load(weight_ptr + channel, mask=in_rows).to(tl.float32)
    bias = tl.load(bias_ptr + channel, mask=in_rows).to(tl.float32)

    centered = conv1 - bn1_mean
    normalized = centered * bn1_rstd
    tl.store(out_ptr + at, nan_maximum(normalized * weight + bias, 0.0), mask=in_range)


def batch_norm_relu(conv1, bn1_mean, bn1_rstd, weight, bias, out, n_batches, n_channels, n_pixels):
    """Fill out."""
    n_rows = n_batches * n_channels
    cols = min(COLS, next_power_of_2(n_pixels))
    rows = max(1, ELEMENTS // cols)
    grid = (ceil_div(n_rows, rows), ceil_div(n_pixels, cols))
    batch_norm_relu_kernel[grid](
        conv1,
        bn1_mean,
        bn1_rstd,
        weight,
        bias,
        out,
        n_batches,
        n_channels,
        n_pixels,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(conv1, bn1_mean, bn1_rstd, weight, bias):
    """What batch_norm_relu() must fill out with."""
    return torch.relu((conv1 - bn1_mean) * bn1_rstd * weight + bias)
