"""rotary: rotary_q = q * rotary_cos + rotate_half(q) * rotary_sin.

    Rotary.forward    rotated = torch.cat([-second, first], dim=-1)
    Rotary.forward    return x * self.cos[:seq] + rotated * self.sin[:seq]

Reads q once from memory and again from the cache, writes rotary_q once; rotary_cos and rotary_sin stay in
cache.
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
def rotary_kernel(
    q_ptr,  # bf16 (n_batches, n_positions, n_heads, n_cols)
    rotary_cos_ptr,  # bf16 (n_positions, n_cols)
    rotary_sin_ptr,  # bf16 (n_positions, n_cols)
    rotary_q_ptr,  # bf16 (n_batches, n_positions, n_heads, n_cols) in memory
    n_batches,
    n_positions,
    n_heads,
    n_cols,
    half,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program computes a block of ROWS x COLS elements; arithmetic in float32."""
    n_rows = n_batches * n_positions * n_heads
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    in_range = (row < n_rows) & (col < n_cols)
    position = row // n_heads % n_positions
    at = position * n_cols + col
    row_start = row * n_cols

    q = tl.load(q_ptr + row_start + col, mask=in_range).to(tl.float32)
    rotary_cos = tl.load(rotary_cos_ptr + at, mask=in_range).to(tl.float32)
    rotary_sin = tl.load(rotary_sin_ptr + at, mask=in_range).to(tl.float32)
    in_first_half = col < half

    reads_second_half = in_range & in_first_half
    second_half = tl.load(q_ptr + row_start + col + half, mask=reads_second_half, other=0.0).to(tl.float32)
    reads_first_half = in_range & ~in_first_half
    first_half = tl.load(q_ptr + row_start + col - half, mask=reads_first_half, other=0.0).to(tl.float32)

    rotated = tl.where(in_first_half, -second_half, first_half)
    tl.store(rotary_q_ptr + row_start + col, q * rotary_cos + rotated * rotary_sin, mask=in_range)


def rotary(q, rotary_cos, rotary_sin, rotary_q, n_batches, n_positions, n_heads, n_cols, half):
    """Fill rotary_q."""
    n_rows = n_batches * n_positions * n_heads
    cols = min(COLS, next_power_of_2(n_cols))
    rows = max(1, ELEMENTS // cols)
    grid = (ceil_div(n_rows, rows), ceil_div(n_cols, cols))
    rotary_kernel[grid](
        q,
        rotary_cos,
        rotary_sin,
        rotary_q,
        n_batches,
        n_positions,
        n_heads,
        n_cols,
        half,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(q, rotary_cos, rotary_sin, half):
    """What rotary() must fill rotary_q with."""
    rotated = torch.cat([-q[..., half:], q[..., :half]], dim=-1)
    return q * rotary_cos + rotated * rotary_sin
