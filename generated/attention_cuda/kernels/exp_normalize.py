"""exp_normalize: normalized = exp(out) / sum(exp(out)), row by row.

    Attention.forward    out = torch.exp(out) / torch.sum(torch.exp(out), dim=-1, keepdim=True)

Reads out once, writes normalized once.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, libdevice, next_power_of_2

# Tunables.
ELEMENTS = 512  # per program: short rows share one
WARP_ELEMENTS = 1024  # held by each warp


@fast_launch
@triton.jit
def exp_normalize_kernel(
    out_ptr,  # float32 (n_rows, n_cols)
    normalized_ptr,  # float32 (n_rows, n_cols); may be out_ptr
    n_rows,
    n_cols: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,  # n_cols, rounded up to a power of two
):
    """Each program keeps ROWS whole rows in registers; sums in float32."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, COLS)[None, :]
    in_range = (row < n_rows) & (col < n_cols)
    at = row * n_cols + col

    out = tl.load(out_ptr + at, mask=in_range, other=float("-inf"))
    exp_out = libdevice.exp(out)
    row_sum = tl.sum(exp_out, axis=1, keep_dims=True)
    tl.store(normalized_ptr + at, exp_out / row_sum, mask=in_range)


def exp_normalize(out, normalized, n_rows, n_cols):
    """Fill normalized."""
    cols = next_power_of_2(n_cols)
    rows = max(1, ELEMENTS // cols)
    exp_normalize_kernel[(ceil_div(n_rows, rows),)](
        out,
        normalized,
        n_rows,
        n_cols,
        ROWS=rows,
        COLS=cols,
        num_warps=ceil_div(rows * cols, WARP_ELEMENTS),
    )


def reference(out):
    """What exp_normalize() must fill normalized with."""
    exp_out = torch.exp(out)
    return exp_out / exp_out.sum(-1, keepdim=True)
