"""batch_norms_add_relu: activated = relu(batch_norm(conv2_out) + batch_norm(shortcut_out)).

    ResNetBlock.forward    out = self.bn2(self.conv2(out))
    ResNetBlock.forward    out = out + self.shortcut(x)
    ResNetBlock.forward    return F.relu(out)

Reads conv2_out and shortcut_out once, writes activated once; the 8 vectors stay in cache.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch

# Tunables.
TILE = 64  # rows and columns of a tile
NUM_WARPS = 8


@triton.jit
def nan_maximum(a, b):
    """The larger; NaN if either is, as in PyTorch."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@fast_launch
@triton.jit
def batch_norms_add_relu_kernel(
    conv2_out_ptr,  # bf16 (n_batches, n_pixels, n_channels) in memory
    bn2_mean_ptr,  # float32 (n_channels,)
    bn2_rstd_ptr,  # float32 (n_channels,)
    bn2_weight_ptr,  # bf16 (n_channels,)
    bn2_bias_ptr,  # bf16 (n_channels,)
    shortcut_out_ptr,  # bf16 (n_batches, n_pixels, n_channels) in memory
    shortcut_mean_ptr,  # float32 (n_channels,)
    shortcut_rstd_ptr,  # float32 (n_channels,)
    shortcut_weight_ptr,  # bf16 (n_channels,)
    shortcut_bias_ptr,  # bf16 (n_channels,)
    activated_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    n_pixels,
    n_channels,
    TILE: tl.constexpr,
):
    """Each program fills one TILE x TILE tile; arithmetic in float32.

    Reads lie along one side of a tile, writes along the other: both take whole lines of memory.
    """
    tile = tl.program_id(0)
    col_tiles = tl.cdiv(n_channels, TILE)
    row_tiles = tl.cdiv(n_pixels, TILE)
    batch = tile // (row_tiles * col_tiles)
    row_tile = tile // col_tiles % row_tiles
    col_tile = tile % col_tiles
    pixel = row_tile * TILE + tl.arange(0, TILE)[:, None]
    channel = col_tile * TILE + tl.arange(0, TILE)[None, :]
    in_cols = channel < n_channels
    in_range = (pixel < n_pixels) & in_cols
    at = (batch * n_pixels + pixel) * n_channels + channel

    conv2_out = tl.load(conv2_out_ptr + at, mask=in_range).to(tl.float32)
    bn2_mean = tl.load(bn2_mean_ptr + channel, mask=in_cols)
    bn2_rstd = tl.load(bn2_rstd_ptr + channel, mask=in_cols)
    bn2_weight = tl.load(bn2_weight_ptr + channel, mask=in_cols).to(tl.float32)
    bn2_bias = tl.load(bn2_bias_ptr + channel, mask=in_cols).to(tl.float32)
    shortcut_out = tl.load(shortcut_out_ptr + at, mask=in_range).to(tl.float32)
    shortcut_mean = tl.load(shortcut_mean_ptr + channel, mask=in_cols)
    shortcut_rstd = tl.load(shortcut_rstd_ptr + channel, mask=in_cols)
    shortcut_weight = tl.load(shortcut_weight_ptr + channel, mask=in_cols).to(tl.float32)
    shortcut_bias = tl.load(shortcut_bias_ptr + channel, mask=in_cols).to(tl.float32)

    normalized = (conv2_out - bn2_mean) * bn2_rstd
    weighted = (shortcut_out - shortcut_mean) * shortcut_rstd * shortcut_weight
    out = normalized * bn2_weight + bn2_bias + (weighted + shortcut_bias)
    tl.store(
        activated_ptr + (batch * n_channels + channel) * n_pixels + pixel,
        nan_maximum(out, 0.0),
        mask=in_range,
    )


def batch_norms_add_relu(
    conv2_out,
    bn2_mean,
    bn2_rstd,
    bn2_weight,
    bn2_bias,
    shortcut_out,
    shortcut_mean,
    shortcut_rstd,
    shortcut_weight,
    shortcut_bias,
    activated,
    n_batches,
    n_pixels,
    n_channels,
):
    """Fill activated."""
    tiles = ceil_div(n_pixels, TILE) * ceil_div(n_channels, TILE)
    batch_norms_add_relu_kernel[(n_batches * tiles,)](
        conv2_out,
        bn2_mean,
        bn2_rstd,
        bn2_weight,
        bn2_bias,
        shortcut_out,
        shortcut_mean,
        shortcut_rstd,
        shortcut_weight,
        shortcut_bias,
        activated,
        n_pixels,
        n_channels,
        TILE=TILE,
        num_warps=NUM_WARPS,
    )


def reference(
    conv2_out,
    bn2_mean,
    bn2_rstd,
    bn2_weight,
    bn2_bias,
    shortcut_out,
    shortcut_mean,
    shortcut_rstd,
    shortcut_weight,
    shortcut_bias,
):
    """What batch_norms_add_relu() must fill activated with."""
    out = (
        (conv2_out - bn2_mean) * bn2_rstd * bn2_weight
        + bn2_bias
        + ((shortcut_out - shortcut_mean) * shortcut_rstd * shortcut_weight + shortcut_bias)
    )
    return torch.relu(out)
