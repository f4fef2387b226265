"""fill_padding: writes zeros to the padding of unscaled_d_logits, n_cols columns from
unscaled_d_logits_offset on.

    LanguageModel.forward    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

Writes the padding of unscaled_d_logits once, and nothing else.
"""

import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ELEMENTS = 1024  # per program: short rows share one
MAX_COLS = 128  # widest piece of a row
NUM_WARPS = 8


@fast_launch
@triton.jit
def fill_padding_kernel(
    unscaled_d_logits_ptr,  # bf16, (n_rows, n_cols), rows unscaled_d_logits_stride apart
    n_rows,
    n_cols,
    unscaled_d_logits_stride,
    unscaled_d_logits_offset,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program computes a block of ROWS x COLS elements."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    in_range = (row < n_rows) & (col < n_cols)

    tl.store(
        unscaled_d_logits_ptr + row * unscaled_d_logits_stride + col + unscaled_d_logits_offset,
        0.0,
        mask=in_range,
    )


def fill_padding(unscaled_d_logits, n_rows, n_cols, unscaled_d_logits_stride, unscaled_d_logits_offset):
    """Fill unscaled_d_logits."""
    cols = min(MAX_COLS, next_power_of_2(n_cols))
    rows = max(1, ELEMENTS // cols)
    grid = (ceil_div(n_rows, rows), ceil_div(n_cols, cols))
    fill_padding_kernel[grid](
        unscaled_d_logits,
        n_rows,
        n_cols,
        unscaled_d_logits_stride,
        unscaled_d_logits_offset,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference():
    """What fill_padding() must fill the padding of unscaled_d_logits with."""
    return 0.0
