"""column_sum_weight: d_weight = sum(d_x), column by column.

    GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)

Reads d_x once, writes d_weight once.
"""

import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ROWS = 16  # rows at a time
MAX_COLS = 32  # columns per program, at most
NUM_WARPS = 4


@fast_launch
@triton.jit
def column_sum_weight_kernel(
    d_x_ptr,  # bf16 (n_rows, n_cols)
    d_weight_ptr,  # bf16 (n_cols,)
    n_rows,
    n_cols,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program walks down COLS columns, ROWS rows at a time; arithmetic in float32."""
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    in_cols = col < n_cols

    acc = tl.zeros([ROWS, COLS], tl.float32)
    for start in range(0, n_rows, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        in_range = (row < n_rows) & in_cols
        d_x = tl.load(d_x_ptr + row * n_cols + col, mask=in_range, other=0.0).to(tl.float32)
        acc += d_x

    d_weight = tl.sum(acc, axis=0, keep_dims=True)
    tl.store(d_weight_ptr + col, d_weight, mask=in_cols)


def column_sum_weight(d_x, d_weight, n_rows, n_cols):
    """Fill d_weight."""
    cols = min(MAX_COLS, next_power_of_2(n_cols))
    column_sum_weight_kernel[(ceil_div(n_cols, cols),)](
        d_x,
        d_weight,
        n_rows,
        n_cols,
        ROWS=ROWS,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(d_x):
    """What column_sum_weight() must fill d_weight with."""
    return d_x.sum(-2, keepdim=True)
