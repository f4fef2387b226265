"""batch_statistics: each channel's mean and 1 / deviation, from those of its pieces; the running ones follow.

    ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))

Reads piece_means, piece_squares, running_mean and running_var once, writes mean, rstd, running_mean and
running_var once.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ELEMENTS = 512  # per program: short rows share one
WARP_ELEMENTS = 1024  # held by each warp


@fast_launch
@triton.jit
def batch_statistics_kernel(
    piece_means_ptr,  # float32 (n_rows, n_cols)
    piece_squares_ptr,  # float32 (n_rows, n_cols)
    mean_ptr,  # float32 (n_rows,)
    rstd_ptr,  # float32 (n_rows,)
    running_mean_ptr,  # bf16 (n_rows,)
    running_var_ptr,  # bf16 (n_rows,)
    n_rows,
    n_cols: tl.constexpr,
    piece_size: tl.constexpr,
    eps: tl.constexpr,
    momentum: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,  # n_cols, rounded up to a power of two
):
    """Each program keeps ROWS whole rows in registers; arithmetic in float32."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, COLS)[None, :]
    in_rows = row < n_rows
    in_cols = col < n_cols
    in_range = in_rows & in_cols
    at = row * n_cols + col

    piece_means = tl.load(piece_means_ptr + at, mask=in_range, other=0.0)
    piece_squares = tl.load(piece_squares_ptr + at, mask=in_range, other=0.0)

    row_sum = tl.sum(piece_means, axis=1, keep_dims=True)
    mean = row_sum / n_cols
    apart = piece_means - mean
    squares_around = piece_squares + apart * apart * piece_size
    total_squares = tl.sum(tl.where(in_cols, squares_around, 0.0), axis=1, keep_dims=True)
    count = n_cols * piece_size
    variance = total_squares / count
    shifted = 1.0 - momentum

    running_mean = tl.load(running_mean_ptr + row, mask=in_rows).to(tl.float32)
    running_var = tl.load(running_var_ptr + row, mask=in_rows).to(tl.float32)

    tl.store(mean_ptr + row, mean, mask=in_rows)
    tl.store(rstd_ptr + row, tl.rsqrt(variance + eps), mask=in_rows)
    tl.store(running_mean_ptr + row, running_mean * shifted + mean * momentum, mask=in_rows)
    tl.store(
        running_var_ptr + row, running_var * shifted + total_squares / (count - 1.0) * momentum, mask=in_rows
    )


def batch_statistics(
    piece_means,
    piece_squares,
    mean,
    rstd,
    running_mean,
    running_var,
    n_rows,
    n_cols,
    piece_size,
    eps,
    momentum,
):
    """Fill mean and rstd and update running_mean and running_var in place."""
    cols = next_power_of_2(n_cols)
    rows = max(1, ELEMENTS // cols)
    batch_statistics_kernel[(ceil_div(n_rows, rows),)](
        piece_means,
        piece_squares,
        mean,
        rstd,
        running_mean,
        running_var,
        n_rows,
        n_cols,
        piece_size,
        eps,
        momentum,
        ROWS=rows,
        COLS=cols,
        num_warps=ceil_div(rows * cols, WARP_ELEMENTS),
    )


def reference(piece_means, piece_squares, running_mean, running_var, n_cols, piece_size, eps, momentum):
    """What batch_statistics() must fill mean, rstd, running_mean and running_var with."""
    mean = piece_means.mean(-1, keepdim=True)
    total_squares = (piece_squares + (piece_means - mean).square() * piece_size).sum(-1, keepdim=True)
    count = n_cols * piece_size
    shifted = 1.0 - momentum
    return (
        mean,
        torch.rsqrt(total_squares / count + eps),
        running_mean * shifted + mean * momentum,
        running_var * shifted + total_squares / (count - 1.0) * momentum,
    )
