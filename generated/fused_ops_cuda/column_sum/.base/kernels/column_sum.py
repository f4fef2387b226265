"""column_sum: sums = sum(x * 2.0), column by column.

    column_sum    return (x * 2).sum(0)

Reads x once, writes sums once.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ROWS = 64  # rows at a time
MAX_COLS = 32  # columns per program, at most
PROGRAMS = 1024  # in all, about
SUM_COLS = 16  # columns of a program that adds up the chunks
NUM_WARPS = 4


@fast_launch
@triton.jit
def column_sum_partial_kernel(
    x_ptr,  # bf16 (n_rows, n_cols)
    partial_ptr,  # float32, a result of each chunk
    n_rows,
    n_cols,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program walks COLS columns down one chunk of the rows, ROWS at a time; arithmetic in float32.

    Blocks of columns alone are few programs, chunks of their rows are more; they are combined in order, so
    that results repeat.
    """
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    in_cols = col < n_cols
    split = tl.program_id(1)
    chunk = tl.cdiv(n_rows, tl.num_programs(1) * ROWS) * ROWS
    begin = tl.minimum(split * chunk, n_rows)  # an unrolled loop must not begin past its end
    end = tl.minimum((split + 1) * chunk, n_rows)

    acc = tl.zeros([ROWS, COLS], tl.float32)
    for start in tl.range(begin, end, ROWS, loop_unroll_factor=2):
        row = start + tl.arange(0, ROWS)[:, None]
        in_range = (row < n_rows) & in_cols
        x = tl.load(x_ptr + row * n_cols + col, mask=in_range, other=0.0).to(tl.float32)
        acc += x * 2.0

    sums = tl.sum(acc, axis=0, keep_dims=True)

    tl.store(partial_ptr + split * n_cols + col, sums, mask=in_cols)


@fast_launch
@triton.jit
def column_sum_combine_kernel(
    partial_ptr,  # float32, a result of each chunk
    sums_ptr,  # bf16 (n_cols,)
    n_cols,
    n_splits,
    SPLITS: tl.constexpr,  # n_splits, rounded up to a power of two
    COLS: tl.constexpr,
):
    """Each program combines the chunks of COLS columns; arithmetic in float32."""
    split = tl.arange(0, SPLITS)[:, None]
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    in_cols = col < n_cols
    in_range = (split < n_splits) & in_cols

    partial = tl.load(partial_ptr + split * n_cols + col, mask=in_range, other=0.0)

    sums = tl.sum(partial, axis=0, keep_dims=True)
    tl.store(sums_ptr + col, sums, mask=in_cols)


def column_sum(x, sums, n_rows, n_cols):
    """Fill sums."""
    cols = min(MAX_COLS, next_power_of_2(n_cols))
    n_blocks = ceil_div(n_cols, cols)
    n_splits = min(max(1, PROGRAMS // n_blocks), ceil_div(n_rows, ROWS))
    partial = x.new_empty(n_splits, n_cols, dtype=torch.float32)
    column_sum_partial_kernel[(n_blocks, n_splits)](
        x,
        partial,
        n_rows,
        n_cols,
        ROWS=ROWS,
        COLS=cols,
        num_warps=NUM_WARPS,
    )
    column_sum_combine_kernel[(ceil_div(n_cols, SUM_COLS),)](
        partial,
        sums,
        n_cols,
        n_splits,
        SPLITS=next_power_of_2(n_splits),
        COLS=SUM_COLS,
    )


def reference(x):
    """What column_sum() must fill sums with."""
    return (x * 2.0).sum(-2, keepdim=True)
