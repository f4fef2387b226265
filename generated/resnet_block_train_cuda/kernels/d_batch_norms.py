"""d_batch_norms: d_shortcut_out and d_conv2_out, in square tiles:
    d_shortcut_out = d_batch_norm(d_out, through_mean, shortcut_out, through_rstd)
    d_conv2_out = d_batch_norm(d_out, conv2_out, bn2_through_rstd)

    ResNetBlock.forward    shortcut[1]: BatchNorm2d
    ResNetBlock.forward    out = self.bn2(self.conv2(out))

Reads d_out, shortcut_out and conv2_out once, writes d_shortcut_out and d_conv2_out once; the 9 vectors stay
in cache.
"""

import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch

# Tunables.
TILE = 64  # rows and columns of a tile
NUM_WARPS = 8


@fast_launch
@triton.jit
def d_batch_norms_kernel(
    d_out_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    through_mean_ptr,  # float32 (n_channels,)
    shortcut_out_ptr,  # bf16 (n_batches, n_pixels, n_channels) in memory
    shortcut_mean_ptr,  # float32 (n_channels,)
    shortcut_rstd_ptr,  # float32 (n_channels,)
    through_rstd_ptr,  # float32 (n_channels,)
    shortcut_weight_ptr,  # bf16 (n_channels,)
    conv2_out_ptr,  # bf16 (n_batches, n_pixels, n_channels) in memory
    bn2_mean_ptr,  # float32 (n_channels,)
    bn2_rstd_ptr,  # float32 (n_channels,)
    bn2_through_rstd_ptr,  # float32 (n_channels,)
    bn2_weight_ptr,  # bf16 (n_channels,)
    d_shortcut_out_ptr,  # bf16 (n_batches, n_pixels, n_channels) in memory
    d_conv2_out_ptr,  # bf16 (n_batches, n_pixels, n_channels) in memory
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

    d_out = tl.load(d_out_ptr + (batch * n_channels + channel) * n_pixels + pixel, mask=in_range).to(
        tl.float32
    )
    through_mean = tl.load(through_mean_ptr + channel, mask=in_cols)
    shortcut_out = tl.load(shortcut_out_ptr + at, mask=in_range).to(tl.float32)
    shortcut_mean = tl.load(shortcut_mean_ptr + channel, mask=in_cols)
    shortcut_rstd = tl.load(shortcut_rstd_ptr + channel, mask=in_cols)
    through_rstd = tl.load(through_rstd_ptr + channel, mask=in_cols)
    shortcut_weight = tl.load(shortcut_weight_ptr + channel, mask=in_cols).to(tl.float32)
    conv2_out = tl.load(conv2_out_ptr + at, mask=in_range).to(tl.float32)
    bn2_mean = tl.load(bn2_mean_ptr + channel, mask=in_cols)
    bn2_rstd = tl.load(bn2_rstd_ptr + channel, mask=in_cols)
    bn2_through_rstd = tl.load(bn2_through_rstd_ptr + channel, mask=in_cols)
    bn2_weight = tl.load(bn2_weight_ptr + channel, mask=in_cols).to(tl.float32)

    less_mean = d_out - through_mean
    normalized = (shortcut_out - shortcut_mean) * shortcut_rstd
    scale = shortcut_rstd * shortcut_weight
    less_means = less_mean - (conv2_out - bn2_mean) * bn2_rstd * bn2_through_rstd

    tl.store(d_shortcut_out_ptr + at, (less_mean - normalized * through_rstd) * scale, mask=in_range)
    tl.store(d_conv2_out_ptr + at, less_means * (bn2_rstd * bn2_weight), mask=in_range)


def d_batch_norms(
    d_out,
    through_mean,
    shortcut_out,
    shortcut_mean,
    shortcut_rstd,
    through_rstd,
    shortcut_weight,
    conv2_out,
    bn2_mean,
    bn2_rstd,
    bn2_through_rstd,
    bn2_weight,
    d_shortcut_out,
    d_conv2_out,
    n_batches,
    n_pixels,
    n_channels,
):
    """Fill d_shortcut_out and d_conv2_out."""
    tiles = ceil_div(n_pixels, TILE) * ceil_div(n_channels, TILE)
    d_batch_norms_kernel[(n_batches * tiles,)](
        d_out,
        through_mean,
        shortcut_out,
        shortcut_mean,
        shortcut_rstd,
        through_rstd,
        shortcut_weight,
        conv2_out,
        bn2_mean,
        bn2_rstd,
        bn2_through_rstd,
        bn2_weight,
        d_shortcut_out,
        d_conv2_out,
        n_pixels,
        n_channels,
        TILE=TILE,
        num_warps=NUM_WARPS,
    )


def reference(
    d_out,
    through_mean,
    shortcut_out,
    shortcut_mean,
    shortcut_rstd,
    through_rstd,
    shortcut_weight,
    conv2_out,
    bn2_mean,
    bn2_rstd,
    bn2_through_rstd,
    bn2_weight,
):
    """What d_batch_norms() must fill d_shortcut_out and d_conv2_out with."""
    less_mean = d_out.transpose(-2, -1) - through_mean
    d_shortcut_out = (less_mean - (shortcut_out - shortcut_mean) * shortcut_rstd * through_rstd) * (
        shortcut_rstd * shortcut_weight
    )
    d_conv2_out = (less_mean - (conv2_out - bn2_mean) * bn2_rstd * bn2_through_rstd) * (bn2_rstd * bn2_weight)
    return d_shortcut_out, d_conv2_out
