"""cat: d_qkv = cat(d_q, d_k, d_v).

    CausalSelfAttention.forward    q, k, v = self.qkv(x).split(dim, dim=-1)

Reads d_q, d_k and d_v once, writes d_qkv once.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ELEMENTS = 4096  # per program: short rows share one
COLS = 512  # widest piece of a row
NUM_WARPS = 4


@fast_launch
@triton.jit
def cat_kernel(
    d_q_ptr,  # bf16
    d_k_ptr,  # bf16
    d_v_ptr,  # bf16
    d_qkv_ptr,  # bf16 (n_rows, n_cols)
    n_rows,
    n_cols,
    d_q_stride,
    d_k_stride,
    d_v_stride,
    boundary,
    second_boundary,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program computes a block of ROWS x COLS elements."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    in_range = (row < n_rows) & (col < n_cols)

    in_first = col < boundary
    d_q = tl.load(d_q_ptr + row * d_q_stride + col, mask=in_range & in_first, other=0.0)
    in_first_two = col < second_boundary

    reads_d_k = in_range & ~in_first & in_first_two
    d_k = tl.load(d_k_ptr + row * d_k_stride + col - boundary, mask=reads_d_k, other=0.0)
    reads_d_v = in_range & ~in_first_two
    d_v = tl.load(d_v_ptr + row * d_v_stride + col - second_boundary, mask=reads_d_v, other=0.0)

    tl.store(
        d_qkv_ptr + row * n_cols + col,
        tl.where(in_first, d_q, tl.where(in_first_two, d_k, d_v)),
        mask=in_range,
    )


def cat(d_q, d_k, d_v, d_qkv, n_rows, n_cols, d_q_stride, d_k_stride, d_v_stride, boundary, second_boundary):
    """Fill d_qkv."""
    cols = min(COLS, next_power_of_2(n_cols))
    rows = max(1, ELEMENTS // cols)
    grid = (ceil_div(n_rows, rows), ceil_div(n_cols, cols))
    cat_kernel[grid](
        d_q,
        d_k,
        d_v,
        d_qkv,
        n_rows,
        n_cols,
        d_q_stride,
        d_k_stride,
        d_v_stride,
        boundary,
        second_boundary,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(d_q, d_k, d_v):
    """What cat() must fill d_qkv with."""
    return torch.cat([d_q, d_k, d_v], dim=-1)
