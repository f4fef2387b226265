"""cat: cat in one pass, from d_q_contiguous, d_k_contiguous and d_v_contiguous to d_qkv.

    CausalSelfAttention.forward    q, k, v = self.qkv(x).split(dim, dim=-1)

Reads d_q_contiguous, d_k_contiguous and d_v_contiguous once, writes d_qkv once.
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
    d_q_contiguous_ptr,  # bf16
    d_k_contiguous_ptr,  # bf16
    d_v_contiguous_ptr,  # bf16
    d_qkv_ptr,  # bf16 (n_rows, n_cols)
    n_rows,
    n_cols,
    d_q_contiguous_stride,
    d_k_contiguous_stride,
    d_v_contiguous_stride,
    boundary,
    d_linear_by,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program computes a block of ROWS x COLS elements; arithmetic in float32."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    in_range = (row < n_rows) & (col < n_cols)

    is_less = col < boundary

    has_d_q_contiguous = in_range & is_less
    d_q_contiguous = tl.load(
        d_q_contiguous_ptr + row * d_q_contiguous_stride + col, mask=has_d_q_contiguous, other=0.0
    ).to(tl.float32)
    attn_is_less = col < d_linear_by

    has_d_k_contiguous = in_range & ~is_less & attn_is_less
    d_k_contiguous = tl.load(
        d_k_contiguous_ptr + row * d_k_contiguous_stride + col - boundary, mask=has_d_k_contiguous, other=0.0
    ).to(tl.float32)
    has_d_v_contiguous = in_range & ~attn_is_less
    d_v_contiguous = tl.load(
        d_v_contiguous_ptr + row * d_v_contiguous_stride + col - d_linear_by,
        mask=has_d_v_contiguous,
        other=0.0,
    ).to(tl.float32)

    selected = tl.where(attn_is_less, d_k_contiguous, d_v_contiguous)
    tl.store(d_qkv_ptr + row * n_cols + col, tl.where(is_less, d_q_contiguous, selected), mask=in_range)


def cat(
    d_q_contiguous,
    d_k_contiguous,
    d_v_contiguous,
    d_qkv,
    n_rows,
    n_cols,
    d_q_contiguous_stride,
    d_k_contiguous_stride,
    d_v_contiguous_stride,
    boundary,
    d_linear_by,
):
    """Fill d_qkv."""
    cols = min(COLS, next_power_of_2(n_cols))
    rows = max(1, ELEMENTS // cols)
    grid = (ceil_div(n_rows, rows), ceil_div(n_cols, cols))
    cat_kernel[grid](
        d_q_contiguous,
        d_k_contiguous,
        d_v_contiguous,
        d_qkv,
        n_rows,
        n_cols,
        d_q_contiguous_stride,
        d_k_contiguous_stride,
        d_v_contiguous_stride,
        boundary,
        d_linear_by,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(d_q_contiguous, d_k_contiguous, d_v_contiguous):
    """What cat() must fill d_qkv with."""
    return torch.cat([d_q_contiguous, d_k_contiguous, d_v_contiguous], dim=-1)
