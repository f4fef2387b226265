"""piece_statistics: piece_means = mean(x); piece_squares = sum((x - piece_means)**2).

    ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))

Reads x once from memory and again from the cache, writes piece_means and piece_squares once.
"""

import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ROWS = 64  # rows at a time
MAX_COLS = 32  # columns per program, at most
NUM_WARPS = 4


@fast_launch
@triton.jit
def piece_statistics_kernel(
    x_ptr,  # bf16 (n_lanes, n_rows, n_channels) in memory
    piece_means_ptr,  # float32 (n_channels, n_lanes)
    piece_squares_ptr,  # float32 (n_channels, n_lanes)
    n_rows,
    n_lanes,
    n_channels,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program walks down COLS columns, ROWS rows at a time; arithmetic in float32."""
    block = tl.program_id(0)
    col_blocks = tl.cdiv(n_channels, COLS)
    lane_index = block // col_blocks
    channel = block % col_blocks * COLS + tl.arange(0, COLS)[None, :]
    in_cols = channel < n_channels

    acc = tl.zeros([ROWS, COLS], tl.float32)
    for start in range(0, n_rows, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        in_range = (row < n_rows) & in_cols
        x = tl.load(x_ptr + (lane_index * n_rows + row) * n_channels + channel, mask=in_range, other=0.0).to(
            tl.float32
        )
        acc += x

    col_sum = tl.sum(acc, axis=0, keep_dims=True)
    piece_means = col_sum / n_rows
    tl.store(piece_means_ptr + channel * n_lanes + lane_index, piece_means, mask=in_cols)

    acc = tl.zeros([ROWS, COLS], tl.float32)
    for start in range(0, n_rows, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        in_rows = row < n_rows
        in_range = in_rows & in_cols
        x = tl.load(x_ptr + (lane_index * n_rows + row) * n_channels + channel, mask=in_range, other=0.0).to(
            tl.float32
        )
        centered = x - piece_means
        acc += tl.where(in_rows, centered * centered, 0.0)

    piece_squares = tl.sum(acc, axis=0, keep_dims=True)
    tl.store(piece_squares_ptr + channel * n_lanes + lane_index, piece_squares, mask=in_cols)


def piece_statistics(x, piece_means, piece_squares, n_rows, n_lanes, n_channels):
    """Fill piece_means and piece_squares."""
    cols = min(MAX_COLS, next_power_of_2(n_channels))
    piece_statistics_kernel[(n_lanes * ceil_div(n_channels, cols),)](
        x,
        piece_means,
        piece_squares,
        n_rows,
        n_lanes,
        n_channels,
        ROWS=ROWS,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(x):
    """What piece_statistics() must fill piece_means and piece_squares with."""
    x = x.transpose(0, 1)
    piece_means = x.mean(-3, keepdim=True)
    return piece_means, (x - piece_means).square().sum(-3, keepdim=True)
