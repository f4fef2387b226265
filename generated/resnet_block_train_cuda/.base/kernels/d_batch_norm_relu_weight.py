"""d_batch_norm_relu_weight: through_rstd, through_mean, d_weight and d_bias, column by column:
    normalized = (conv1_out - bn1_mean) * bn1_rstd
    d_bn1 = where(normalized * weight + bias <= 0.0, 0.0, d_out)
    through_rstd = mean(d_bn1 * normalized)
    through_mean = mean(d_bn1)
    d_weight = sum(d_bn1 * normalized)
    d_bias = sum(d_bn1)

    ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))

Reads conv1_out and d_out once, writes through_rstd, through_mean, d_weight and d_bias once; bn1_mean,
bn1_rstd, weight and bias stay in cache.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ROWS = 64  # rows at a time
MAX_COLS = 32  # columns per program, at most
PROGRAMS = 1024  # in all, about
SUM_COLS = 16  # columns of a program that adds up the chunks
NUM_WARPS = 4


@fast_launch
@triton.jit
def d_batch_norm_relu_weight_partial_kernel(
    conv1_out_ptr,  # bf16 (n_rows, n_cols) in memory
    bn1_mean_ptr,  # float32 (n_cols,)
    bn1_rstd_ptr,  # float32 (n_cols,)
    weight_ptr,  # bf16 (n_cols,)
    bias_ptr,  # bf16 (n_cols,)
    d_out_ptr,  # bf16 (n_rows, n_cols) in memory
    d_weight_partial_ptr,  # float32, a result of each chunk
    d_bias_partial_ptr,  # float32, a result of each chunk
    n_rows,
    n_cols,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program walks COLS columns down one chunk of the rows, ROWS at a time; arithmetic in float32.

    Blocks of columns alone are few programs, chunks of their rows are more; they are combined in order, so
    that results repeat.
    """
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    in_cols = col < n_cols
    split = tl.program_id(1)
    chunk = tl.cdiv(n_rows, tl.num_programs(1) * ROWS) * ROWS
    begin = tl.minimum(split * chunk, n_rows)  # an unrolled loop must not begin past its end
    end = tl.minimum((split + 1) * chunk, n_rows)

    bn1_mean = tl.load(bn1_mean_ptr + col, mask=in_cols)
    bn1_rstd = tl.load(bn1_rstd_ptr + col, mask=in_cols)
    weight = tl.load(weight_ptr + col, mask=in_cols).to(tl.float32)
    bias = tl.load(bias_ptr + col, mask=in_cols).to(tl.float32)

    d_weight_acc = tl.zeros([ROWS, COLS], tl.float32)
    d_bias_acc = tl.zeros([ROWS, COLS], tl.float32)
    for start in tl.range(begin, end, ROWS, loop_unroll_factor=2):
        row = start + tl.arange(0, ROWS)[:, None]
        in_rows = row < n_rows
        in_range = in_rows & in_cols
        at = row * n_cols + col
        conv1_out = tl.load(conv1_out_ptr + at, mask=in_range, other=0.0).to(tl.float32)
        d_out = tl.load(d_out_ptr + at, mask=in_range, other=0.0).to(tl.float32)
        normalized = (conv1_out - bn1_mean) * bn1_rstd
        d_bn1 = tl.where(normalized * weight + bias <= 0.0, 0.0, d_out)
        d_weight_acc += tl.where(in_rows, d_bn1 * normalized, 0.0)
        d_bias_acc += d_bn1

    d_weight = tl.sum(d_weight_acc, axis=0, keep_dims=True)
    d_bias = tl.sum(d_bias_acc, axis=0, keep_dims=True)

    tl.store(d_weight_partial_ptr + split * n_cols + col, d_weight, mask=in_cols)
    tl.store(d_bias_partial_ptr + split * n_cols + col, d_bias, mask=in_cols)


@fast_launch
@triton.jit
def d_batch_norm_relu_weight_combine_kernel(
    d_weight_partial_ptr,  # float32, a result of each chunk
    d_bias_partial_ptr,  # float32, a result of each chunk
    through_rstd_ptr,  # float32 (n_cols,)
    through_mean_ptr,  # float32 (n_cols,)
    d_weight_ptr,  # bf16 (n_cols,)
    d_bias_ptr,  # bf16 (n_cols,)
    n_rows,
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

    tl.store(through_rstd_ptr + col, d_weight / n_rows, mask=in_cols)
    tl.store(through_mean_ptr + col, d_bias / n_rows, mask=in_cols)
    tl.store(d_weight_ptr + col, d_weight, mask=in_cols)
    tl.store(d_bias_ptr + col, d_bias, mask=in_cols)


def d_batch_norm_relu_weight(
    conv1_out,
    bn1_mean,
    bn1_rstd,
    weight,
    bias,
    d_out,
    through_rstd,
    through_mean,
    d_weight,
    d_bias,
    n_rows,
    n_cols,
):
    """Fill through_rstd, through_mean, d_weight and d_bias."""
    cols = min(MAX_COLS, next_power_of_2(n_cols))
    n_blocks = ceil_div(n_cols, cols)
    n_splits = min(max(1, PROGRAMS // n_blocks), ceil_div(n_rows, ROWS))
    d_weight_partial = conv1_out.new_empty(n_splits, n_cols, dtype=torch.float32)
    d_bias_partial = conv1_out.new_empty(n_splits, n_cols, dtype=torch.float32)
    d_batch_norm_relu_weight_partial_kernel[(n_blocks, n_splits)](
        conv1_out,
        bn1_mean,
        bn1_rstd,
        weight,
        bias,
        d_out,
        d_weight_partial,
        d_bias_partial,
        n_rows,
        n_cols,
        ROWS=ROWS,
        COLS=cols,
        num_warps=NUM_WARPS,
    )
    d_batch_norm_relu_weight_combine_kernel[(ceil_div(n_cols, SUM_COLS),)](
        d_weight_partial,
        d_bias_partial,
        through_rstd,
        through_mean,
        d_weight,
        d_bias,
        n_rows,
        n_cols,
        n_splits,
        SPLITS=next_power_of_2(n_splits),
        COLS=SUM_COLS,
    )


def reference(conv1_out, bn1_mean, bn1_rstd, weight, bias, d_out, n_rows):
    """What d_batch_norm_relu_weight() must fill through_rstd, through_mean, d_weight and d_bias with."""
    normalized = (conv1_out - bn1_mean) * bn1_rstd
    d_bn1 = torch.where(normalized * weight + bias <= 0.0, 0.0, d_out)
    d_weight = (d_bn1 * normalized).sum(-2, keepdim=True)
    d_bias = d_bn1.sum(-2, keepdim=True)
    return d_weight / n_rows, d_bias / n_rows, d_weight, d_bias
