"""column_sum_few_rows: d_weight = sum(d_x), column by column.

    GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)

Reads d_x once, writes d_weight once.
"""

import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch

# Tunables.
BLOCK = 1024  # results per program
NUM_WARPS = 4


@fast_launch
@triton.jit
def column_sum_few_rows_kernel(
    d_x_ptr,  # bf16 (n_rows, n_cols)
    d_weight_ptr,  # bf16 (n_cols,)
    n_rows: tl.constexpr,
    n_cols,
    BLOCK: tl.constexpr,
):
    """Each program computes a block of BLOCK results; arithmetic in float32."""
    col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    in_range = col < n_cols

    d_weight = tl.zeros([BLOCK], tl.float32)
    for row in tl.static_range(n_rows):
        d_x = tl.load(d_x_ptr + col + row * n_cols, mask=in_range).to(tl.float32)
        d_weight += d_x

    tl.store(d_weight_ptr + col, d_weight, mask=in_range)


def column_sum_few_rows(d_x, d_weight, n_rows, n_cols):
    """Fill d_weight."""
    column_sum_few_rows_kernel[(ceil_div(n_cols, BLOCK),)](
        d_x,
        d_weight,
        n_rows,
        n_cols,
        BLOCK=BLOCK,
        num_warps=NUM_WARPS,
    )


def reference(d_x):
    """What column_sum_few_rows() must fill d_weight with."""
    return d_x.sum(-2, keepdim=True)
