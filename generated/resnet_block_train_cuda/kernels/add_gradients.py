"""add_gradients: d_x = d_x_from_shortcut + d_x_from_conv1, in square tiles.

    ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))

Reads d_x_from_shortcut and d_x_from_conv1 once, writes d_x once.
"""

import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch

# Tunables.
TILE = 128  # rows and columns of a tile
NUM_WARPS = 8


@fast_launch
@triton.jit
def add_gradients_kernel(
    d_x_from_shortcut_ptr,  # bf16 (n_batches, n_pixels, n_channels) in memory
    d_x_from_conv1_ptr,  # bf16 (n_batches, n_pixels, n_channels) in memory
    d_x_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    n_pixels,
    n_channels,
    TILE: tl.constexpr,
):
    """Each program fills one TILE x TILE tile; arithmetic in float32."""
    tile = tl.program_id(0)
    col_tiles = tl.cdiv(n_channels, TILE)
    row_tiles = tl.cdiv(n_pixels, TILE)
    batch = tile // (row_tiles * col_tiles)
    row_tile = tile // col_tiles % row_tiles
    col_tile = tile % col_tiles
    pixel = row_tile * TILE + tl.arange(0, TILE)[:, None]
    channel = col_tile * TILE + tl.arange(0, TILE)[None, :]
    in_range = (pixel < n_pixels) & (channel < n_channels)
    at = (batch * n_pixels + pixel) * n_channels + channel

    d_x_from_shortcut = tl.load(d_x_from_shortcut_ptr + at, mask=in_range).to(tl.float32)
    d_x_from_conv1 = tl.load(d_x_from_conv1_ptr + at, mask=in_range).to(tl.float32)
    tl.store(
        d_x_ptr + (batch * n_channels + channel) * n_pixels + pixel,
        d_x_from_shortcut + d_x_from_conv1,
        mask=in_range,
    )


def add_gradients(d_x_from_shortcut, d_x_from_conv1, d_x, n_batches, n_pixels, n_channels):
    """Fill d_x."""
    tiles = ceil_div(n_pixels, TILE) * ceil_div(n_channels, TILE)
    add_gradients_kernel[(n_batches * tiles,)](
        d_x_from_shortcut,
        d_x_from_conv1,
        d_x,
        n_pixels,
        n_channels,
        TILE=TILE,
        num_warps=NUM_WARPS,
    )


def reference(d_x_from_shortcut, d_x_from_conv1):
    """What add_gradients() must fill d_x with."""
    return d_x_from_shortcut + d_x_from_conv1
