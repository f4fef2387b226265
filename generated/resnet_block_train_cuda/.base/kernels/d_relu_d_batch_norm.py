"""d_relu_d_batch_norm: d_x, d_weight and d_bias, channel by channel:
    d_x = d_batch_norm(d_relu(d_out, out), x)
    d_weight = sum(d_relu(d_out, out) * normalize(x))
    d_bias = sum(d_relu(d_out, out))

    ResNetBlock.forward    return F.relu(out)
    ResNetBlock.forward    out = out + self.shortcut(x)

Reads mean, rstd and weight once and out, d_out and x once from memory and again from the cache, writes d_x,
d_weight and d_bias once.
"""

import torch
import triton
import triton.language as tl

from ..runtime import fast_launch

# Tunables.
COLS = 4096  # columns at a time
NUM_WARPS = 16
NUM_STAGES = 2


@fast_launch
@triton.jit
def d_relu_d_batch_norm_kernel(
    out_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    d_out_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    x_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    mean_ptr,  # float32 (n_channels,)
    rstd_ptr,  # float32 (n_channels,)
    weight_ptr,  # bf16 (n_channels,)
    d_x_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    d_weight_ptr,  # bf16 (n_channels,)
    d_bias_ptr,  # bf16 (n_channels,)
    n_channels,
    n_batches: tl.constexpr,
    n_pixels: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program walks one row, COLS columns at a time; arithmetic in float32."""
    n_cols = n_batches * n_pixels
    channel = tl.program_id(0)
    row_start = channel * n_pixels
    lane = tl.arange(0, COLS)

    mean = tl.load(mean_ptr + channel)
    rstd = tl.load(rstd_ptr + channel)

    d_bias_acc = tl.zeros([COLS], tl.float32)
    d_weight_acc = tl.zeros([COLS], tl.float32)
    for start in range(0, n_cols, COLS):
        col = start + lane
        in_cols = col < n_cols
        pixel = col % n_pixels
        batch = col // n_pixels
        at = row_start + batch * n_channels * n_pixels + pixel
        out = tl.load(out_ptr + at, mask=in_cols, other=0.0).to(tl.float32)
        d_out = tl.load(d_out_ptr + at, mask=in_cols, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + at, mask=in_cols, other=0.0).to(tl.float32)
        masked_d_out = tl.where(out <= 0.0, 0.0, d_out)
        normalized = (x - mean) * rstd
        d_bias_acc += masked_d_out
        d_weight_acc += tl.where(in_cols, masked_d_out * normalized, 0.0)

    d_bias = tl.sum(d_bias_acc, axis=0)
    d_weight = tl.sum(d_weight_acc, axis=0)
    through_mean = d_bias / (n_batches * n_pixels)
    through_rstd = d_weight / (n_batches * n_pixels)

    weight = tl.load(weight_ptr + channel).to(tl.float32)
    scale = rstd * weight

    tl.store(d_weight_ptr + channel, d_weight)
    tl.store(d_bias_ptr + channel, d_bias)

    for start in range(0, n_cols, COLS):
        col = start + lane
        in_cols = col < n_cols
        pixel = col % n_pixels
        batch = col // n_pixels
        at = row_start + batch * n_channels * n_pixels + pixel
        out = tl.load(out_ptr + at, mask=in_cols, other=0.0).to(tl.float32)
        d_out = tl.load(d_out_ptr + at, mask=in_cols, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + at, mask=in_cols, other=0.0).to(tl.float32)
        masked_d_out = tl.where(out <= 0.0, 0.0, d_out)
        less_mean = masked_d_out - through_mean
        normalized = (x - mean) * rstd
        tl.store(d_x_ptr + at, (less_mean - normalized * through_rstd) * scale, mask=in_cols)


def d_relu_d_batch_norm(
    out, d_out, x, mean, rstd, weight, d_x, d_weight, d_bias, n_channels, n_batches, n_pixels
):
    """Fill d_x, d_weight and d_bias."""
    d_relu_d_batch_norm_kernel[(n_channels,)](
        out,
        d_out,
        x,
        mean,
        rstd,
        weight,
        d_x,
        d_weight,
        d_bias,
        n_channels,
        n_batches,
        n_pixels,
        COLS=COLS,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )


def reference(out, d_out, x, mean, rstd, weight, n_batches, n_pixels):
    """What d_relu_d_batch_norm() must fill d_x, d_weight and d_bias with."""
    masked_d_out = torch.where(out.transpose(0, 1) <= 0.0, 0.0, d_out.transpose(0, 1))
    d_bias = masked_d_out.sum((-2, -1), keepdim=True)
    normalized = (x.transpose(0, 1) - mean) * rstd
    d_weight = (masked_d_out * normalized).sum((-2, -1), keepdim=True)
    difference = (
        masked_d_out - d_bias / (n_batches * n_pixels) - normalized * (d_weight / (n_batches * n_pixels))
    )
    return difference * (rstd * weight), d_weight, d_bias
