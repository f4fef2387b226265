"""batch_norms_add_relu: activated = relu(batch_norm(conv2) + batch_norm(shortcut)).

    ResNetBlock.forward    out = self.bn2(self.conv2(out))
    ResNetBlock.forward    out = out + self.shortcut(x)
    ResNetBlock.forward    return F.relu(out)

Reads conv2 and shortcut once, writes activated once; the 8 vectors stay in cache.
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
def batch_norms_add_relu_kernel(
    conv2_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    bn2_mean_ptr,  # float32 (n_channels,)
    bn2_rstd_ptr,  # float32 (n_channels,)
    bn2_weight_ptr,  # bf16 (n_channels,)
    bn2_bias_ptr,  # bf16 (n_channels,)
    shortcut_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    shortcut_mean_ptr,  # float32 (n_channels,)
    shortcut_rstd_ptr,  # float32 (n_channels,)
    shortcut_1_weight_ptr,  # bf16 (n_channels,)
    shortcut_1_bias_ptr,  # bf16 (n_channels,)
    activated_ptr,  # bf16 (n_batches, n_channels, n_pixels)
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

    conv2 = tl.load(conv2_ptr + at, mask=in_range).to(tl.float32)
    bn2_mean = tl.load(bn2_mean_ptr + channel, mask=in_rows)
    bn2_rstd = tl.load(bn2_rstd_ptr + channel, mask=in_rows)
    bn2_weight = tl.load(bn2_weight_ptr + channel, mask=in_rows).to(tl.float32)
    bn2_bias = tl.load(bn2_bias_ptr + channel, mask=in_rows).to(tl.float32)
    shortcut = tl.load(shortcut_ptr + at, mask=in_range).to(tl.float32)
    shortcut_mean = tl.load(shortcut_mean_ptr + channel, mask=in_rows)
    shortcut_rstd = tl.load(shortcut_rstd_ptr + channel, mask=in_rows)
    shortcut_1_weight = tl.load(shortcut_1_weight_ptr + channel, mask=in_rows).to(tl.float32)
    shortcut_1_bias = tl.load(shortcut_1_bias_ptr + channel, mask=in_rows).to(tl.float32)

    centered = conv2 - bn2_mean
    normalized = centered * bn2_rstd
    product = (shortcut - shortcut_mean) * shortcut_rstd * shortcut_1_weight
    out = normalized * bn2_weight + bn2_bias + (product + shortcut_1_bias)

    tl.store(activated_ptr + at, nan_maximum(out, 0.0), mask=in_range)


def batch_norms_add_relu(
    conv2,
    bn2_mean,
    bn2_rstd,
    bn2_weight,
    bn2_bias,
    shortcut,
    shortcut_mean,
    shortcut_rstd,
    shortcut_1_weight,
    shortcut_1_bias,
    activated,
    n_batches,
    n_channels,
    n_pixels,
):
    """Fill activated."""
    n_rows = n_batches * n_channels
    cols = min(COLS, next_power_of_2(n_pixels))
    rows = max(1, ELEMENTS // cols)
    grid = (ceil_div(n_rows, rows), ceil_div(n_pixels, cols))
    batch_norms_add_relu_kernel[grid](
        conv2,
        bn2_mean,
        bn2_rstd,
        bn2_weight,
        bn2_bias,
        shortcut,
        shortcut_mean,
        shortcut_rstd,
        shortcut_1_weight,
        shortcut_1_bias,
        activated,
        n_batches,
        n_channels,
        n_pixels,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(
    conv2,
    bn2_mean,
    bn2_rstd,
    bn2_weight,
    bn2_bias,
    shortcut,
    shortcut_mean,
    shortcut_rstd,
    shortcut_1_weight,
    shortcut_1_bias,
):
    """What batch_norms_add_relu() must fill activated with."""
    out = (
        (conv2 - bn2_mean) * bn2_rstd * bn2_weight
        + bn2_bias
        + ((shortcut - shortcut_mean) * shortcut_rstd * shortcut_1_weight + shortcut_1_bias)
    )
    return torch.relu(out)
