"""d_batch_norms_relu: the backward pass of relu and batch norm, channel by channel.

    ResNetBlock.forward    return F.relu(out)
    ResNetBlock.forward    shortcut[1]: BatchNorm2d
    ResNetBlock.forward    out = self.bn2(self.conv2(out))

Reads activated, d_activated, shortcut_out, the 4 vectors and conv2_out once, writes 5 gradients and the 3
vectors once.
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
def d_batch_norms_relu_kernel(
    activated_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    d_activated_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    shortcut_out_ptr,  # bf16 (n_batches, n_pixels, n_channels) in memory
    shortcut_mean_ptr,  # float32 (n_channels,)
    shortcut_rstd_ptr,  # float32 (n_channels,)
    conv2_out_ptr,  # bf16 (n_batches, n_pixels, n_channels) in memory
    bn2_mean_ptr,  # float32 (n_channels,)
    bn2_rstd_ptr,  # float32 (n_channels,)
    d_out_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    through_rstd_ptr,  # float32 (n_channels,)
    through_mean_ptr,  # float32 (n_channels,)
    bn2_through_rstd_ptr,  # float32 (n_channels,)
    d_weight_ptr,  # bf16 (n_channels,)
    d_bn2_weight_ptr,  # bf16 (n_channels,)
    d_bias_ptr,  # bf16 (n_channels,)
    d_bn2_bias_ptr,  # bf16 (n_channels,)
    n_channels,
    n_batches: tl.constexpr,
    n_pixels: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program walks one row, COLS columns at a time; arithmetic in float32.

    Rows may be longer than registers hold.
    """
    n_cols = n_batches * n_pixels
    channel = tl.program_id(0)
    row_start = channel * n_pixels
    lane = tl.arange(0, COLS)

    shortcut_mean = tl.load(shortcut_mean_ptr + channel)
    shortcut_rstd = tl.load(shortcut_rstd_ptr + channel)
    bn2_mean = tl.load(bn2_mean_ptr + channel)
    bn2_rstd = tl.load(bn2_rstd_ptr + channel)

    d_weight_acc = tl.zeros([COLS], tl.float32)
    d_bias_acc = tl.zeros([COLS], tl.float32)
    d_bn2_weight_acc = tl.zeros([COLS], tl.float32)
    for start in range(0, n_cols, COLS):
        col = start + lane
        in_cols = col < n_cols
        pixel = col % n_pixels
        batch = col // n_pixels
        at = row_start + batch * n_channels * n_pixels + pixel
        activated = tl.load(activated_ptr + at, mask=in_cols, other=0.0).to(tl.float32)
        d_activated = tl.load(d_activated_ptr + at, mask=in_cols, other=0.0).to(tl.float32)
        shortcut_out = tl.load(shortcut_out_ptr + channel + col * n_channels, mask=in_cols, other=0.0).to(
            tl.float32
        )
        conv2_out = tl.load(conv2_out_ptr + channel + col * n_channels, mask=in_cols, other=0.0).to(
            tl.float32
        )
        d_out = tl.where(activated <= 0.0, 0.0, d_activated)
        normalized = (shortcut_out - shortcut_mean) * shortcut_rstd
        d_weight_acc += tl.where(in_cols, d_out * normalized, 0.0)
        d_bias_acc += d_out
        d_bn2_weight_acc += tl.where(in_cols, d_out * ((conv2_out - bn2_mean) * bn2_rstd), 0.0)
        tl.store(d_out_ptr + at, d_out, mask=in_cols)

    d_weight = tl.sum(d_weight_acc, axis=0)
    d_bias = tl.sum(d_bias_acc, axis=0)
    d_bn2_weight = tl.sum(d_bn2_weight_acc, axis=0)

    tl.store(through_rstd_ptr + channel, d_weight / (n_batches * n_pixels))
    tl.store(through_mean_ptr + channel, d_bias / (n_batches * n_pixels))
    tl.store(bn2_through_rstd_ptr + channel, d_bn2_weight / (n_batches * n_pixels))
    tl.store(d_weight_ptr + channel, d_weight)
    tl.store(d_bn2_weight_ptr + channel, d_bn2_weight)
    tl.store(d_bias_ptr + channel, d_bias)
    tl.store(d_bn2_bias_ptr + channel, d_bias)


def d_batch_norms_relu(
    activated,
    d_activated,
    shortcut_out,
    shortcut_mean,
    shortcut_rstd,
    conv2_out,
    bn2_mean,
    bn2_rstd,
    d_out,
    through_rstd,
    through_mean,
    bn2_through_rstd,
    d_weight,
    d_bn2_weight,
    d_bias,
    d_bn2_bias,
    n_channels,
    n_batches,
    n_pixels,
):
    """Fill d_out, through_rstd, through_mean, bn2_through_rstd, d_weight, d_bn2_weight, d_bias and
    d_bn2_bias."""
    d_batch_norms_relu_kernel[(n_channels,)](
        activated,
        d_activated,
        shortcut_out,
        shortcut_mean,
        shortcut_rstd,
        conv2_out,
        bn2_mean,
        bn2_rstd,
        d_out,
        through_rstd,
        through_mean,
        bn2_through_rstd,
        d_weight,
        d_bn2_weight,
        d_bias,
        d_bn2_bias,
        n_channels,
        n_batches,
        n_pixels,
        COLS=COLS,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )


def reference(
    activated,
    d_activated,
    shortcut_out,
    shortcut_mean,
    shortcut_rstd,
    conv2_out,
    bn2_mean,
    bn2_rstd,
    n_batches,
    n_pixels,
):
    """What d_batch_norms_relu() must fill its results with."""
    d_out = torch.where(activated.transpose(0, 1) <= 0.0, 0.0, d_activated.transpose(0, 1))
    d_weight = (d_out * ((shortcut_out.permute(2, 0, 1) - shortcut_mean) * shortcut_rstd)).sum(
        (-2, -1), keepdim=True
    )
    d_bn2_bias = d_out.sum((-2, -1), keepdim=True)
    d_bn2_weight = (d_out * ((conv2_out.permute(2, 0, 1) - bn2_mean) * bn2_rstd)).sum((-2, -1), keepdim=True)
    return (
        d_out,
        d_weight / (n_batches * n_pixels),
        d_bn2_bias / (n_batches * n_pixels),
        d_bn2_weight / (n_batches * n_pixels),
        d_weight,
        d_bn2_weight,
        d_bn2_bias,
        d_bn2_bias,
    )
