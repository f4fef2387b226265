"""pad: head by pad in one pass.

    GPT.forward    return self.head(self.ln_f(x))

Reads weight once, writes head once.
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
def pad_kernel(
    weight_ptr,  # bf16 (n_rows, n_cols)
    head_ptr,  # bf16 (n_rows, n_cols)
    n_rows,
    n_cols,
    filled_end,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program computes a block of ROWS x COLS elements; arithmetic in float32."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    in_range = (row < n_rows) & (col < n_cols)
    at = row * n_cols + col

    has_weight = in_range & (row < filled_end)

    weight = tl.load(weight_ptr + at, mask=has_weight, other=0.0).to(tl.float32)
    tl.store(head_ptr + at, weight, mask=in_range)


def pad(weight, head, n_rows, n_cols, filled_end):
    """Fill head."""
    cols = min(COLS, next_power_of_2(n_cols))
    rows = max(1, ELEMENTS // cols)
    grid = (ceil_div(n_rows, rows), ceil_div(n_cols, cols))
    pad_kernel[grid](
        weight,
        head,
        n_rows,
        n_cols,
        filled_end,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(weight, n_rows, n_cols, filled_end):
    """What pad() must fill head with."""
    row = torch.arange(n_rows, device=weight.device).view(-1, 1)
    col = torch.arange(n_cols, device=weight.device)
    at = row * n_cols + col
    return torch.where(row < filled_end, weight[torch.where(row < filled_end, at, 0)], 0.0)
