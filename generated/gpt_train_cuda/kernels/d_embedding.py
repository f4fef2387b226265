"""d_embedding: d_token_embedding_from_lookup_totals[tokens] += d_x.

    GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)

Reads tokens and d_x once, adds to d_token_embedding_from_lookup_totals in whatever order, so that last bits
need not repeat.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ELEMENTS = 2048  # per program: short rows share one
MAX_COLS = 256  # widest piece of a row
NUM_WARPS = 4


@fast_launch
@triton.jit
def d_embedding_kernel(
    tokens_ptr,  # int64 (n_rows,)
    d_x_ptr,  # bf16 (n_rows, n_cols)
    d_token_embedding_from_lookup_totals_ptr,  # float32 (n_places, n_cols)
    n_rows,
    n_cols,
    n_places,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program computes a block of ROWS x COLS elements; arithmetic in float32."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    in_rows = row < n_rows
    in_range = in_rows & (col < n_cols)

    tokens = tl.load(tokens_ptr + row, mask=in_rows)
    d_x = tl.load(d_x_ptr + row * n_cols + col, mask=in_range).to(tl.float32)

    has_place = (tokens >= 0) & (tokens < n_places)
    place = tl.where(has_place, tokens, 0)
    tl.atomic_add(
        d_token_embedding_from_lookup_totals_ptr + place * n_cols + col,
        tl.where(has_place, d_x, float("nan")),
        mask=in_range,
        sem="relaxed",
    )


def d_embedding(tokens, d_x, d_token_embedding_from_lookup_totals, n_rows, n_cols, n_places):
    """Add to d_token_embedding_from_lookup_totals."""
    cols = min(MAX_COLS, next_power_of_2(n_cols))
    rows = max(1, ELEMENTS // cols)
    grid = (ceil_div(n_rows, rows), ceil_div(n_cols, cols))
    d_embedding_kernel[grid](
        tokens,
        d_x,
        d_token_embedding_from_lookup_totals,
        n_rows,
        n_cols,
        n_places,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(tokens, d_x, d_token_embedding_from_lookup_totals, n_cols, n_places):
    """What d_embedding() must fill d_token_embedding_from_lookup_totals with."""
    has_place = (tokens >= 0) & (tokens < n_places)
    col = torch.arange(n_cols, device=tokens.device)
    return d_token_embedding_from_lookup_totals.index_put(
        (col + torch.where(has_place, tokens, 0) * n_cols,),
        torch.where(has_place, d_x, torch.nan).to(d_token_embedding_from_lookup_totals.dtype),
        accumulate=True,
    )
