"""rotary: out = x * cos + rotate_half(x) * sin.

    Rotary.forward    rotated = torch.cat([-second, first], dim=-1)
    Rotary.forward    return x * self.cos[:seq] + rotated * self.sin[:seq]

Reads x once and cos and sin once for each batch and head, writes out once.
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
def rotary_kernel(
    x_ptr,  # bf16 (n_batches, n_positions, n_heads, head_dim)
    cos_ptr,  # bf16 (n_positions, head_dim)
    sin_ptr,  # bf16 (n_positions, head_dim)
    out_ptr,  # bf16 (n_batches, n_positions, n_heads, head_dim) in memory
    n_batches,
    n_positions,
    n_heads,
    head_dim,
    half,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program computes a block of ROWS x COLS elements of each half; arithmetic in float32."""
    n_rows = n_batches * n_positions * n_heads
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    in_range = (row < n_rows) & (col < half)
    position = row // n_heads % n_positions
    at = row * head_dim + col + half
    row_start = position * head_dim

    first_x = tl.load(x_ptr + row * head_dim + col, mask=in_range).to(tl.float32)
    second_x = tl.load(x_ptr + at, mask=in_range).to(tl.float32)
    first_cos = tl.load(cos_ptr + row_start + col, mask=in_range).to(tl.float32)
    second_cos = tl.load(cos_ptr + row_start + col + half, mask=in_range).to(tl.float32)
    first_sin = tl.load(sin_ptr + row_start + col, mask=in_range).to(tl.float32)
    second_sin = tl.load(sin_ptr + row_start + col + half, mask=in_range).to(tl.float32)

    tl.store(out_ptr + row * head_dim + col, first_x * first_cos - second_x * first_sin, mask=in_range)
    tl.store(out_ptr + at, second_x * second_cos + first_x * second_sin, mask=in_range)


def rotary(x, cos, sin, out, n_batches, n_positions, n_heads, head_dim, half):
    """Fill out."""
    n_rows = n_batches * n_positions * n_heads
    cols = min(MAX_COLS, next_power_of_2(half))
    rows = max(1, ELEMENTS // cols)
    grid = (ceil_div(n_rows, rows), ceil_div(half, cols))
    rotary_kernel[grid](
        x,
        cos,
        sin,
        out,
        n_batches,
        n_positions,
        n_heads,
        head_dim,
        half,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(x, cos, sin, half):
    """What rotary() must fill out with."""
    rotated = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * cos + rotated * sin
