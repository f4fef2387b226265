"""embedding_add_and_layer_norm: x and normed, row by row:
    x = token_embedding[tokens] + position_embedding_weight
    normed = layer_norm(x)

    GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)
    Block.forward    x = x + self.attn(self.ln_1(x))

Reads tokens once, position_embedding_weight once for each batch and token_embedding where tokens says, writes
x and normed once; ln_1_weight and bias stay in cache.
"""

import torch.nn.functional as F
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ELEMENTS = 512  # per program: short rows share one
WARP_ELEMENTS = 1024  # held by each warp


@fast_launch
@triton.jit
def embedding_add_and_layer_norm_kernel(
    tokens_ptr,  # int64 (n_batches, n_positions)
    token_embedding_ptr,  # bf16 (table_size, dim)
    position_embedding_weight_ptr,  # bf16 (n_positions, dim)
    ln_1_weight_ptr,  # bf16 (dim,)
    bias_ptr,  # bf16 (dim,)
    x_ptr,  # bf16 (n_batches, n_positions, dim)
    normed_ptr,  # bf16 (n_batches, n_positions, dim)
    n_batches,
    n_positions,
    dim: tl.constexpr,
    table_size,
    eps: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,  # dim, rounded up to a power of two
):
    """Each program keeps ROWS whole rows in registers; arithmetic in float32."""
    n_rows = n_batches * n_positions
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, COLS)[None, :]
    in_rows = row < n_rows
    in_cols = col < dim
    in_range = in_rows & in_cols
    position = row % n_positions
    at = row * dim + col

    position_embedding_weight = tl.load(
        position_embedding_weight_ptr + position * dim + col, mask=in_range, other=0.0
    ).to(tl.float32)
    tokens = tl.load(tokens_ptr + row, mask=in_rows)
    in_table = (tokens >= 0) & (tokens < table_size)

    token_embedding = tl.load(
        token_embedding_ptr + tokens * dim + col, mask=in_range & in_table, other=float("nan")
    ).to(tl.float32)

    x = token_embedding + position_embedding_weight
    row_sum = tl.sum(tl.where(in_cols, x, 0.0), axis=1, keep_dims=True)
    mean = row_sum / dim
    centered = tl.where(in_cols, x - mean, 0.0)
    sum_of_squares = tl.sum(centered * centered, axis=1, keep_dims=True)
    variance = sum_of_squares / dim
    rstd = tl.rsqrt(variance + eps)
    normalized = centered * rstd

    ln_1_weight = tl.load(ln_1_weight_ptr + col, mask=in_cols).to(tl.float32)
    bias = tl.load(bias_ptr + col, mask=in_cols).to(tl.float32)

    tl.store(x_ptr + at, x, mask=in_range)
    tl.store(normed_ptr + at, normalized * ln_1_weight + bias, mask=in_range)


def embedding_add_and_layer_norm(
    tokens,
    token_embedding,
    position_embedding_weight,
    ln_1_weight,
    bias,
    x,
    normed,
    n_batches,
    n_positions,
    dim,
    table_size,
    eps,
):
    """Fill x and normed."""
    n_rows = n_batches * n_positions
    cols = next_power_of_2(dim)
    rows = max(1, ELEMENTS // cols)
    embedding_add_and_layer_norm_kernel[(ceil_div(n_rows, rows),)](
        tokens,
        token_embedding,
        position_embedding_weight,
        ln_1_weight,
        bias,
        x,
        normed,
        n_batches,
        n_positions,
        dim,
        table_size,
        eps,
        ROWS=rows,
        COLS=cols,
        num_warps=ceil_div(rows * cols, WARP_ELEMENTS),
    )


def reference(tokens, token_embedding, position_embedding_weight, ln_1_weight, bias, dim, eps):
    """What embedding_add_and_layer_norm() must fill x and normed with."""
    x = token_embedding.view(-1, dim)[tokens.squeeze(-1)] + position_embedding_weight
    return x, F.layer_norm(x, ln_1_weight.shape, ln_1_weight, bias, eps)
