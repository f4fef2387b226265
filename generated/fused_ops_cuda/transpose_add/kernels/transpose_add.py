"""transpose_add: out = x.t() + y, in square tiles.

    transpose_add    return x.t().contiguous() + y

Reads x and y once, writes out once.
"""

import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch

# Tunables.
TILE = 128  # rows and columns of a tile
NUM_WARPS = 8


@fast_launch
@triton.jit
def transpose_add_kernel(
    x_ptr,  # bf16 (n_cols, n_rows)
    y_ptr,  # bf16 (n_rows, n_cols)
    out_ptr,  # bf16 (n_rows, n_cols)
    n_rows,
    n_cols,
    TILE: tl.constexpr,
):
    """Each program fills one TILE x TILE tile; arithmetic in float32.

    Reads lie along one side of a tile, writes along the other: both take whole lines of memory.
    """
    tile = tl.program_id(0)
    col_tiles = tl.cdiv(n_cols, TILE)
    row_tile = tile // col_tiles
    col_tile = tile % col_tiles
    row = row_tile * TILE + tl.arange(0, TILE)[:, None]
    col = col_tile * TILE + tl.arange(0, TILE)[None, :]
    in_range = (row < n_rows) & (col < n_cols)
    at = row * n_cols + col

    x = tl.load(x_ptr + row + col * n_rows, mask=in_range).to(tl.float32)
    y = tl.load(y_ptr + at, mask=in_range).to(tl.float32)
    tl.store(out_ptr + at, x + y, mask=in_range)


def transpose_add(x, y, out, n_rows, n_cols):
    """Fill out."""
    tiles = ceil_div(n_rows, TILE) * ceil_div(n_cols, TILE)
    transpose_add_kernel[(tiles,)](
        x,
        y,
        out,
        n_rows,
        n_cols,
        TILE=TILE,
        num_warps=NUM_WARPS,
    )


def reference(x, y):
    """What transpose_add() must fill out with."""
    return x.t() + y
