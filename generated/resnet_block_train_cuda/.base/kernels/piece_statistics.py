"""piece_statistics: piece_means = mean(x); piece_squares = sum((x - piece_means)**2), row by row.

    ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))

Reads x once, writes piece_means and piece_squares once.
"""

import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ELEMENTS = 512  # per program: short rows share one
WARP_ELEMENTS = 1024  # held by each warp


@fast_launch
@triton.jit
def piece_statistics_kernel(
    x_ptr,  # bf16 (n_batches, n_channels, n_pixels)
    piece_means_ptr,  # float32 (n_channels, n_batches)
    piece_squares_ptr,  # float32 (n_channels, n_batches)
    n_channels,
    n_batches,
    n_pixels: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,  # n_pixels, rounded up to a power of two
):
    """Each program keeps ROWS whole rows in registers; arithmetic in float32."""
    n_rows = n_channels * n_batches
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    pixel = tl.arange(0, COLS)[None, :]
    in_rows = row < n_rows
    in_cols = pixel < n_pixels
    in_range = in_rows & in_cols
    batch = row % n_batches
    channel = row // n_batches

    x = tl.load(x_ptr + (batch * n_channels + channel) * n_pixels + pixel, mask=in_range, other=0.0).to(
        tl.float32
    )

    row_sum = tl.sum(x, axis=1, keep_dims=True)
    piece_means = row_sum / n_pixels
    centered = tl.where(in_cols, x - piece_means, 0.0)
    piece_squares = tl.sum(centered * centered, axis=1, keep_dims=True)

    tl.store(piece_means_ptr + row, piece_means, mask=in_rows)
    tl.store(piece_squares_ptr + row, piece_squares, mask=in_rows)


def piece_statistics(x, piece_means, piece_squares, n_channels, n_batches, n_pixels):
    """Fill piece_means and piece_squares."""
    n_rows = n_channels * n_batches
    cols = next_power_of_2(n_pixels)
    rows = max(1, ELEMENTS // cols)
    piece_statistics_kernel[(ceil_div(n_rows, rows),)](
        x,
        piece_means,
        piece_squares,
        n_channels,
        n_batches,
        n_pixels,
        ROWS=rows,
        COLS=cols,
        num_warps=ceil_div(rows * cols, WARP_ELEMENTS),
    )


def reference(x, n_pixels):
    """What piece_statistics() must fill piece_means and piece_squares with."""
    x = x.transpose(0, 1)
    piece_means = x.sum(-1, keepdim=True) / n_pixels
    centered = x - piece_means
    return piece_means, (centered * centered).sum(-1, keepdim=True)
