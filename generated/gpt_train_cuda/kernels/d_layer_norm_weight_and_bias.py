"""d_layer_norm_weight_and_bias: d_weight = sum(d_ln_f * normalized); d_bias = sum(d_ln_f).

    GPT.forward    return self.head(self.ln_f(x))

Reads d_ln_f and normalized once, writes d_weight and d_bias once.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ROWS = 64  # rows at a time
COLS = 64  # columns per program
SPLITS = 32  # chunks of the rows, at most
NUM_WARPS = 4


@fast_launch
@triton.jit
def d_layer_norm_weight_and_bias_partial_kernel(
    d_ln_f_ptr,  # bf16 (n_rows, n_cols)
    normalized_ptr,  # bf16 (n_rows, n_cols)
    d_weight_partial_ptr,  # float32, a result of each chunk
    d_bias_partial_ptr,  # float32, a result of each chunk
    n_rows,
    n_cols,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program walks COLS columns down one chunk of the rows, ROWS at a time; arithmetic in float32."""
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    in_cols = col < n_cols
    split = tl.program_id(1)
    chunk = tl.cdiv(n_rows, tl.num_programs(1) * ROWS) * ROWS
    end = tl.minimum((split + 1) * chunk, n_rows)

    d_weight_acc = tl.zeros([ROWS, COLS], tl.float32)
    d_bias_acc = tl.zeros([ROWS, COLS], tl.float32)
    for start in tl.range(split * chunk, end, ROWS, loop_unroll_factor=2):
        row = start + tl.arange(0, ROWS)[:, None]
        in_range = (row < n_rows) & in_cols
        at = row * n_cols + col
        d_ln_f = tl.load(d_ln_f_ptr + at, mask=in_range, other=0.0).to(tl.float32)
        normalized = tl.load(normalized_ptr + at, mask=in_range, other=0.0).to(tl.float32)
        d_weight_acc += d_ln_f * normalized
        d_bias_acc += d_ln_f

    d_weight = tl.sum(d_weight_acc, axis=0, keep_dims=True)
    d_bias = tl.sum(d_bias_acc, axis=0, keep_dims=True)

    tl.store(d_weight_partial_ptr + split * n_cols + col, d_weight, mask=in_cols)
    tl.store(d_bias_partial_ptr + split * n_cols + col, d_bias, mask=in_cols)


@fast_launch
@triton.jit
def d_layer_norm_weight_and_bias_combine_kernel(
    d_weight_partial_ptr,  # float32, a result of each chunk
    d_bias_partial_ptr,  # float32, a result of each chunk
    d_weight_ptr,  # bf16 (n_cols,)
    d_bias_ptr,  # bf16 (n_cols,)
    n_cols,
    n_splits,
    SPLITS: tl.constexpr,  # n_splits, rounded up to a power of two
    COLS: tl.constexpr,
):
    """Each program combines the chunks of COLS columns; arithmetic in float32."""
    split = tl.arange(0, SPLITS)[:, None]
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    in_cols = col < n_cols
    in_range = (split < n_splits) & in_cols

    d_weight_partial = tl.load(d_weight_partial_ptr + split * n_cols + col, mask=in_range, other=0.0)
    d_bias_partial = tl.load(d_bias_partial_ptr + split * n_cols + col, mask=in_range, other=0.0)

    d_weight = tl.sum(d_weight_partial, axis=0, keep_dims=True)
    d_bias = tl.sum(d_bias_partial, axis=0, keep_dims=True)

    tl.store(d_weight_ptr + col, d_weight, mask=in_cols)
    tl.store(d_bias_ptr + col, d_bias, mask=in_cols)


def d_layer_norm_weight_and_bias(d_ln_f, normalized, d_weight, d_bias, n_rows, n_cols):
    """Fill d_weight and d_bias."""
    cols = min(COLS, next_power_of_2(n_cols))
    n_splits = min(SPLITS, ceil_div(n_rows, ROWS))
    d_weight_partial = torch.empty((n_splits, n_cols), dtype=torch.float32, device=d_ln_f.device)
    d_bias_partial = torch.empty((n_splits, n_cols), dtype=torch.float32, device=d_ln_f.device)
    d_layer_norm_weight_and_bias_partial_kernel[(ceil_div(n_cols, cols), n_splits)](
        d_ln_f,
        normalized,
        d_weight_partial,
        d_bias_partial,
        n_rows,
        n_cols,
        ROWS=ROWS,
        COLS=cols,
        num_warps=NUM_WARPS,
    )
    d_layer_norm_weight_and_bias_combine_kernel[(ceil_div(n_cols, cols),)](
        d_weight_partial,
        d_bias_partial,
        d_weight,
        d_bias,
        n_cols,
        n_splits,
        SPLITS=next_power_of_2(n_splits),
        COLS=cols,
    )


def reference(d_ln_f, normalized):
    """What d_layer_norm_weight_and_bias() must fill d_weight and d_bias with."""
    return (d_ln_f * normalized).sum(-2, keepdim=True), d_ln_f.sum(-2, keepdim=True)
