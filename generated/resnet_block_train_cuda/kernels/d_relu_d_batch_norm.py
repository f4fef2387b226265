"""d_relu_d_batch_norm: d_shortcut, d_weight and d_bias, channel by channel:
    d_out = d_relu(d_activated, activated)
    d_shortcut = d_batch_norm(d_out, shortcut)
    d_weight = sum(d_out * normalize(shortcut))
    d_bias = sum(d_out)

    ResNetBlock.forward    return F.relu(out)
    ResNetBlock.forward    out = out + self.shortcut(x)

Reads shortcut_mean, shortcut_rstd and weight once and activated, d_activated and shortcut once from memory
and again from the cache, writes d_shortcut, d_weight and d_bias once.
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
    activated_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    d_activated_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    shortcut_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    shortcut_mean_ptr,  # float32 (n_channels,)
    shortcut_rstd_ptr,  # float32 (n_channels,)
    weight_ptr,  # bf16 (n_channels,)
    d_shortcut_ptr,  # bf16 (n_batches, n_channels, n_pixels)
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

    shortcut_mean = tl.load(shortcut_mean_ptr + channel)
    shortcut_rstd = tl.load(shortcut_rstd_ptr + channel)

    d_bias_acc = tl.zeros([COLS], tl.float32)
    d_weight_acc = tl.zeros([COLS], tl.float32)
    for start in range(0, n_cols, COLS):
        col = start + lane
        in_cols = col < n_cols
        pixel = col % n_pixels
        batch = col // n_pixels
        at = row_start + batch * n_channels * n_pixels + pixel
        activated = tl.load(activated_ptr + at, mask=in_cols, other=0.0).to(tl.float32)
        d_activated = tl.load(d_activated_ptr + at, mask=in_cols, other=0.0).to(tl.float32)
        shortcut = tl.load(shortcut_ptr + at, mask=in_cols, other=0.0).to(tl.float32)
        d_out = tl.where(activated <= 0.0, 0.0, d_activated)
        normalized = (shortcut - shortcut_mean) * shortcut_rstd
        d_bias_acc += d_out
        d_weight_acc += tl.where(in_cols, d_out * normalized, 0.0)

    d_bias = tl.sum(d_bias_acc, axis=0)
    d_weight = tl.sum(d_weight_acc, axis=0)
    through_mean = d_bias / (n_batches * n_pixels)
    through_rstd = d_weight / (n_batches * n_pixels)

    weight = tl.load(weight_ptr + channel).to(tl.float32)
    scale = shortcut_rstd * weight

    tl.store(d_weight_ptr + channel, d_weight)
    tl.store(d_bias_ptr + channel, d_bias)

    for start in range(0, n_cols, COLS):
        col = start + lane
        in_cols = col < n_cols
        pixel = col % n_pixels
        batch = col // n_pixels
        at = row_start + batch * n_channels * n_pixels + pixel
        activated = tl.load(activated_ptr + at, mask=in_cols, other=0.0).to(tl.float32)
        d_activated = tl.load(d_activated_ptr + at, mask=in_cols, other=0.0).to(tl.float32)
        shortcut = tl.load(shortcut_ptr + at, mask=in_cols, other=0.0).to(tl.float32)
        d_out = tl.where(activated <= 0.0, 0.0, d_activated)
        less_mean = d_out - through_mean
        normalized = (shortcut - shortcut_mean) * shortcut_rstd
        tl.store(d_shortcut_ptr + at, (less_mean - normalized * through_rstd) * scale, mask=in_cols)


def d_relu_d_batch_norm(
    activated,
    d_activated,
    shortcut,
    shortcut_mean,
    shortcut_rstd,
    weight,
    d_shortcut,
    d_weight,
    d_bias,
    n_channels,
    n_batches,
    n_pixels,
):
    """Fill d_shortcut, d_weight and d_bias."""
    d_relu_d_batch_norm_kernel[(n_channels,)](
        activated,
        d_activated,
        shortcut,
        shortcut_mean,
        shortcut_rstd,
        weight,
        d_shortcut,
        d_weight,
        d_bias,
        n_channels,
        n_batches,
        n_pixels,
        COLS=COLS,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )


def reference(activated, d_activated, shortcut, shortcut_mean, shortcut_rstd, weight, n_batches, n_pixels):
    """What d_relu_d_batch_norm() must fill d_shortcut, d_weight and d_bias with."""
    d_out = torch.where(activated.transpose(0, 1) <= 0.0, 0.0, d_activated.transpose(0, 1))
    d_bias = d_out.sum((-2, -1), keepdim=True)
    normalized = (shortcut.transpose(0, 1) - shortcut_mean) * shortcut_rstd
    d_weight = (d_out * normalized).sum((-2, -1), keepdim=True)
    difference = d_out - d_bias / (n_batches * n_pixels) - normalized * (d_weight / (n_batches * n_pixels))
    return difference * (shortcut_rstd * weight), d_weight, d_bias
