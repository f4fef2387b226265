"""to_channels_last: x_channels_last = x with its channels last in memory, in square tiles.

    ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))

Reads x once, writes x_channels_last once.
"""

import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch

# Tunables.
TILE = 128  # rows and columns of a tile
NUM_WARPS = 8


@fast_launch
@triton.jit
def to_channels_last_kernel(
    x_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    x_channels_last_ptr,  # bf16 (n_batches, n_pixels, n_channels) in memory
    n_pixels,
    n_channels,
    TILE: tl.constexpr,
):
    """Each program fills one TILE x TILE tile.

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
    in_range = (pixel < n_pixels) & (channel < n_channels)

    x = tl.load(x_ptr + (batch * n_channels + channel) * n_pixels + pixel, mask=in_range)
    tl.store(x_channels_last_ptr + (batch * n_pixels + pixel) * n_channels + channel, x, mask=in_range)


def to_channels_last(x, x_channels_last, n_batches, n_pixels, n_channels):
    """Fill x_channels_last."""
    tiles = ceil_div(n_pixels, TILE) * ceil_div(n_channels, TILE)
    to_channels_last_kernel[(n_batches * tiles,)](
        x,
        x_channels_last,
        n_pixels,
        n_channels,
        TILE=TILE,
        num_warps=NUM_WARPS,
    )


def reference(x):
    """What to_channels_last() must fill x_channels_last with."""
    return x.transpose(-2, -1)
