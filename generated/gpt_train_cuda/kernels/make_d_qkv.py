"""make_d_qkv: d_qkv_out = cat(d_q, d_k, d_v); d_bias = sum(d_qkv_out), column by column.

    CausalSelfAttention.forward    q, k, v = self.qkv(x).split(dim, dim=-1)

Reads d_q, d_k and d_v once, writes d_qkv_out and d_bias once.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ROWS = 8  # rows at a time
MAX_COLS = 128  # columns per program, at most
PROGRAMS = 1024  # in all, about
SUM_COLS = 16  # columns of a program that adds up the chunks
NUM_WARPS = 2


@fast_launch
@triton.jit
def make_d_qkv_partial_kernel(
    d_q_ptr,  # bf16, rows of d_q_stride elements
    d_k_ptr,  # bf16, rows of d_k_stride elements
    d_v_ptr,  # bf16, rows of d_v_stride elements
    d_qkv_out_ptr,  # bf16 (n_rows, n_cols)
    partial_ptr,  # float32, a result of each chunk
    n_rows,
    n_cols,
    d_q_stride,
    d_k_stride,
    d_v_stride,
    d_q_end,
    d_k_end,
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

    in_d_q = col < d_q_end
    before_d_v = col < d_k_end

    acc = tl.zeros([ROWS, COLS], tl.float32)
    for start in tl.range(begin, end, ROWS, loop_unroll_factor=2):
        row = start + tl.arange(0, ROWS)[:, None]
        in_range = (row < n_rows) & in_cols
        d_q = tl.load(d_q_ptr + row * d_q_stride + col, mask=in_range & in_d_q, other=0.0).to(tl.float32)
        reads_d_k = in_range & ~in_d_q & before_d_v
        d_k = tl.load(d_k_ptr + row * d_k_stride + col - d_q_end, mask=reads_d_k, other=0.0).to(tl.float32)
        reads_d_v = in_range & ~before_d_v
        d_v = tl.load(d_v_ptr + row * d_v_stride + col - d_k_end, mask=reads_d_v, other=0.0).to(tl.float32)
        d_qkv_out = tl.where(in_d_q, d_q, tl.where(before_d_v, d_k, d_v))
        acc += d_qkv_out
        tl.store(d_qkv_out_ptr + row * n_cols + col, d_qkv_out, mask=in_range)

    d_bias = tl.sum(acc, axis=0, keep_dims=True)

    tl.store(partial_ptr + split * n_cols + col, d_bias, mask=in_cols)


@fast_launch
@triton.jit
def make_d_qkv_combine_kernel(
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


def make_d_qkv(
    d_q, d_k, d_v, d_qkv_out, d_bias, n_rows, n_cols, d_q_stride, d_k_stride, d_v_stride, d_q_end, d_k_end
):
    """Fill d_qkv_out and d_bias."""
    cols = min(MAX_COLS, next_power_of_2(n_cols))
    n_blocks = ceil_div(n_cols, cols)
    n_splits = min(max(1, PROGRAMS // n_blocks), ceil_div(n_rows, ROWS))
    partial = d_q.new_empty(n_splits, n_cols, dtype=torch.float32)
    make_d_qkv_partial_kernel[(n_blocks, n_splits)](
        d_q,
        d_k,
        d_v,
        d_qkv_out,
        partial,
        n_rows,
        n_cols,
        d_q_stride,
        d_k_stride,
        d_v_stride,
        d_q_end,
        d_k_end,
        ROWS=ROWS,
        COLS=cols,
        num_warps=NUM_WARPS,
    )
    make_d_qkv_combine_kernel[(ceil_div(n_cols, SUM_COLS),)](
        partial,
        d_bias,
        n_cols,
        n_splits,
        SPLITS=next_power_of_2(n_splits),
        COLS=SUM_COLS,
    )


def reference(d_q, d_k, d_v):
    """What make_d_qkv() must fill d_qkv_out and d_bias with."""
    d_qkv_out = torch.cat([d_q, d_k, d_v], dim=-1)
    return d_qkv_out, d_qkv_out.sum(-2, keepdim=True)
