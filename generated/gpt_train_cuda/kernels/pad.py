"""pad: head = 0.0.

    GPT.forward    return self.head(self.ln_f(x))

Writes head once.
"""

import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ELEMENTS = 4096  # per program: short rows share one
COLS = 512  # widest piece of a row
NUM_WARPS = 4


@fast_launch
@triton.jit
def pad_kernel(
    head_ptr,  # bf16 (n_rows, n_cols)
    n_rows,
    n_cols,
    head_stride,
    head_offset,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program computes a block of ROWS x COLS elements."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    in_range = (row < n_rows) & (col < n_cols)

    tl.store(head_ptr + row * head_stride + col + head_offset, 0.0, mask=in_range)


def pad(head, n_rows, n_cols, head_stride, head_offset):
    """Fill head."""
    cols = min(COLS, next_power_of_2(n_cols))
    rows = max(1, ELEMENTS // cols)
    grid = (ceil_div(n_rows, rows), ceil_div(n_cols, cols))
    pad_kernel[grid](
        head,
        n_rows,
        n_cols,
        head_stride,
        head_offset,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference():
    """What pad() must fill head with."""
    return 0.0
