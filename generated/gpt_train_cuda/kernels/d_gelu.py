"""d_gelu: hidden = gelu(widen_out); d_widen_out = d_hidden * gelu'(widen_out); d_bias = sum(d_widen_out).

    Mlp.forward    hidden = F.gelu(self.widen(x), approximate="tanh")

Reads widen_out and d_hidden once, writes hidden, d_widen_out and d_bias once.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

TWO_SQRT_2_OVER_PI = tl.constexpr(1.5957691216057308)

# Tunables.
ROWS = 8  # rows at a time
MAX_COLS = 128  # columns per program, at most
PROGRAMS = 1024  # in all, about
SUM_COLS = 16  # columns of a program that adds up the chunks
NUM_WARPS = 4


@fast_launch
@triton.jit
def d_gelu_partial_kernel(
    widen_out_ptr,  # bf16 (n_rows, n_cols)
    d_hidden_ptr,  # bf16 (n_rows, n_cols)
    hidden_ptr,  # bf16 (n_rows, n_cols)
    d_widen_out_ptr,  # bf16 (n_rows, n_cols)
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
        in_rows = row < n_rows
        in_range = in_rows & in_cols
        at = row * n_cols + col
        widen_out = tl.load(widen_out_ptr + at, mask=in_range, other=0.0).to(tl.float32)
        d_hidden = tl.load(d_hidden_ptr + at, mask=in_range, other=0.0).to(tl.float32)
        widen_out_squared = widen_out * widen_out
        cubic = widen_out + widen_out_squared * widen_out * 0.044715
        sigmoid = tl.sigmoid(cubic * TWO_SQRT_2_OVER_PI)
        hidden = widen_out * sigmoid
        d_cubic = widen_out_squared * 0.134145 + 1.0
        d_widen_out = d_hidden * (sigmoid + hidden * (1.0 - sigmoid) * (d_cubic * TWO_SQRT_2_OVER_PI))
        acc += tl.where(in_rows, d_widen_out, 0.0)
        tl.store(hidden_ptr + at, hidden, mask=in_range)
        tl.store(d_widen_out_ptr + at, d_widen_out, mask=in_range)

    d_bias = tl.sum(acc, axis=0, keep_dims=True)

    tl.store(partial_ptr + split * n_cols + col, d_bias, mask=in_cols)


@fast_launch
@triton.jit
def d_gelu_combine_kernel(
    partial_ptr,  # float32, a result of each chunk
    d_bias_ptr,  # bf16 (n_cols,)
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

    d_bias = tl.sum(partial, axis=0, keep_dims=True)
    tl.store(d_bias_ptr + col, d_bias, mask=in_cols)


def d_gelu(widen_out, d_hidden, hidden, d_widen_out, d_bias, n_rows, n_cols):
    """Fill hidden, d_widen_out and d_bias."""
    cols = min(MAX_COLS, next_power_of_2(n_cols))
    n_blocks = ceil_div(n_cols, cols)
    n_splits = min(max(1, PROGRAMS // n_blocks), ceil_div(n_rows, ROWS))
    partial = widen_out.new_empty(n_splits, n_cols, dtype=torch.float32)
    d_gelu_partial_kernel[(n_blocks, n_splits)](
        widen_out,
        d_hidden,
        hidden,
        d_widen_out,
        partial,
        n_rows,
        n_cols,
        ROWS=ROWS,
        COLS=cols,
        num_warps=NUM_WARPS,
    )
    d_gelu_combine_kernel[(ceil_div(n_cols, SUM_COLS),)](
        partial,
        d_bias,
        n_cols,
        n_splits,
        SPLITS=next_power_of_2(n_splits),
        COLS=SUM_COLS,
    )


def reference(widen_out, d_hidden):
    """What d_gelu() must fill hidden, d_widen_out and d_bias with."""
    widen_out_squared = widen_out * widen_out
    sigmoid = torch.sigmoid(
        (widen_out + widen_out_squared * widen_out * 0.044715) * (2 * (2 / torch.pi) ** 0.5)
    )
    hidden = widen_out * sigmoid
    product = hidden * (1.0 - sigmoid) * ((widen_out_squared * 0.134145 + 1.0) * (2 * (2 / torch.pi) ** 0.5))
    d_widen_out = d_hidden * (sigmoid + product)
    return hidden, d_widen_out, d_widen_out.sum(-2, keepdim=True)
