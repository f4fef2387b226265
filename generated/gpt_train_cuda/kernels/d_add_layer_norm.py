"""d_add_layer_norm: normed, d_x, d_weight and d_bias, in one pass over the rows:
    rstd = rsqrt(var(x) + eps)
    normalized = (x - mean(x)) * rstd
    normed = normalized * weight + bias
    d_normalized = d_normed * weight
    d_x = d_out + (d_normalized - mean(d_normalized) - normalized * mean(d_normalized * normalized)) * rstd
    d_weight = sum(d_normed * normalized)
    d_bias = sum(d_normed)

    Block.forward    return x + self.mlp(self.ln_2(x))

Reads x, d_out and d_normed once, writes normed, d_x, d_weight and d_bias once; weight and bias stay in cache.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ELEMENTS = 2048  # at a time: short rows share a step
WARP_ELEMENTS = 1024  # held by each warp
SPLITS = 512  # chunks of the rows, at most
SUM_COLS = 16  # columns of a program that adds up the chunks


@fast_launch
@triton.jit
def d_add_layer_norm_partial_kernel(
    x_ptr,  # bf16 (n_rows, n_cols)
    weight_ptr,  # bf16 (n_cols,)
    bias_ptr,  # bf16 (n_cols,)
    d_out_ptr,  # bf16 (n_rows, n_cols)
    d_normed_ptr,  # bf16 (n_rows, n_cols)
    normed_ptr,  # bf16 (n_rows, n_cols)
    d_x_ptr,  # bf16 (n_rows, n_cols); may be d_out_ptr
    d_weight_partial_ptr,  # float32, a result of each chunk
    d_bias_partial_ptr,  # float32, a result of each chunk
    n_rows,
    n_cols: tl.constexpr,
    eps: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,  # n_cols, rounded up to a power of two
):
    """Each program walks a chunk of the rows and adds up their columns; arithmetic in float32.

    Each chunk has its own sums; they are combined in order, so that results repeat.
    """
    col = tl.arange(0, COLS)[None, :]
    in_cols = col < n_cols
    split = tl.program_id(0)
    chunk = tl.cdiv(n_rows, tl.num_programs(0) * ROWS) * ROWS
    end = tl.minimum((split + 1) * chunk, n_rows)

    weight = tl.load(weight_ptr + col, mask=in_cols, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + col, mask=in_cols).to(tl.float32)

    d_weight_acc = tl.zeros([ROWS, COLS], tl.float32)
    d_bias_acc = tl.zeros([ROWS, COLS], tl.float32)
    for start in tl.range(split * chunk, end, ROWS, num_stages=2):
        row = start + tl.arange(0, ROWS)[:, None]
        in_rows = row < n_rows
        in_range = in_rows & in_cols
        at = row * n_cols + col

        x = tl.load(x_ptr + at, mask=in_range, other=0.0).to(tl.float32)
        d_out = tl.load(d_out_ptr + at, mask=in_range).to(tl.float32)
        d_normed = tl.load(d_normed_ptr + at, mask=in_range, other=0.0).to(tl.float32)

        row_sum = tl.sum(x, axis=1, keep_dims=True)
        mean = row_sum / n_cols
        centered = x - mean
        sum_of_squares = tl.sum(tl.where(in_cols, centered * centered, 0.0), axis=1, keep_dims=True)
        variance = sum_of_squares / n_cols
        rstd = tl.rsqrt(variance + eps)
        normalized = centered * rstd
        d_normalized = d_normed * weight
        d_normalized_sum = tl.sum(d_normalized, axis=1, keep_dims=True)
        through_mean = d_normalized_sum / n_cols
        sum_of_products = tl.sum(tl.where(in_cols, d_normalized * centered, 0.0), axis=1, keep_dims=True)
        through_rstd = sum_of_products / n_cols * rstd
        through_norm = (d_normalized - through_mean - normalized * through_rstd) * rstd
        d_weight_acc += tl.where(in_rows, d_normed * normalized, 0.0)
        d_bias_acc += tl.where(in_rows, d_normed, 0.0)

        tl.store(normed_ptr + at, normalized * weight + bias, mask=in_range)
        tl.store(d_x_ptr + at, d_out + through_norm, mask=in_range)

    d_weight = tl.sum(d_weight_acc, axis=0, keep_dims=True)
    d_bias = tl.sum(d_bias_acc, axis=0, keep_dims=True)

    tl.store(d_weight_partial_ptr + split * n_cols + col, d_weight, mask=in_cols)
    tl.store(d_bias_partial_ptr + split * n_cols + col, d_bias, mask=in_cols)


@fast_launch
@triton.jit
def d_add_layer_norm_combine_kernel(
    d_weight_partial_ptr,  # float32, a result of each chunk
    d_bias_partial_ptr,  # float32, a result of each chunk
    d_weight_ptr,  # bf16 (n_cols,)
    d_bias_ptr,  # bf16 (n_cols,)
    n_cols: tl.constexpr,
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


def d_add_layer_norm(x, weight, bias, d_out, d_normed, normed, d_x, d_weight, d_bias, n_rows, n_cols, eps):
    """Fill normed, d_x, d_weight and d_bias."""
    cols = next_power_of_2(n_cols)
    rows = max(1, ELEMENTS // cols)
    n_splits = min(SPLITS, ceil_div(n_rows, rows))
    d_weight_partial = x.new_empty(n_splits, n_cols, dtype=torch.float32)
    d_bias_partial = x.new_empty(n_splits, n_cols, dtype=torch.float32)
    d_add_layer_norm_partial_kernel[(n_splits,)](
        x,
        weight,
        bias,
        d_out,
        d_normed,
        normed,
        d_x,
        d_weight_partial,
        d_bias_partial,
        n_rows,
        n_cols,
        eps,
        ROWS=rows,
        COLS=cols,
        num_warps=ceil_div(rows * cols, WARP_ELEMENTS),
    )
    d_add_layer_norm_combine_kernel[(ceil_div(n_cols, SUM_COLS),)](
        d_weight_partial,
        d_bias_partial,
        d_weight,
        d_bias,
        n_cols,
        n_splits,
        SPLITS=next_power_of_2(n_splits),
        COLS=SUM_COLS,
    )


def reference(x, weight, bias, d_out, d_normed, eps):
    """What d_add_layer_norm() must fill normed, d_x, d_weight and d_bias with."""
    centered = x - x.mean(-1, keepdim=True)
    rstd = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + eps)
    normalized = centered * rstd
    d_normalized = d_normed * weight
    less_means = (
        d_normalized
        - torch.mean(d_normalized, -1, keepdim=True)
        - normalized * (torch.mean(d_normalized * centered, -1, keepdim=True) * rstd)
    )
    return (
        normalized * weight + bias,
        d_out + less_means * rstd,
        (d_normed * normalized).sum(-2, keepdim=True),
        d_normed.sum(-2, keepdim=True),
    )
