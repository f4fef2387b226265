"""batch_norm_add_relu: activated by batch norm, add and relu in one pass.

    ResNetBlock.forward    out = self.bn2(self.conv2(out))
    ResNetBlock.forward    out = out + self.shortcut(x)
    ResNetBlock.forward    return F.relu(out)

Reads conv2, running_mean, running_var and 7 more once, writes activated once.
"""

import torch
import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch, next_power_of_2

# Tunables.
ELEMENTS = 4096  # per program: short rows share one
COLS = 512  # widest piece of a row
NUM_WARPS = 4


@triton.jit
def nan_maximum(a, b):
    """The larger; NaN if either is, as in PyTorch."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@fast_launch
@triton.jit
def batch_norm_add_relu_kernel(
    conv2_ptr,  # bf16 (n_groups, n_rows, n_cols)
    running_mean_ptr,  # bf16 (n_rows,)
    running_var_ptr,  # bf16 (n_rows,)
    weight_ptr,  # bf16 (n_rows,)
    bias_ptr,  # bf16 (n_rows,)
    features_ptr,  # bf16 (n_groups, n_rows, n_cols)
    shortcut_running_mean_ptr,  # bf16 (n_rows,)
    shortcut_running_var_ptr,  # bf16 (n_rows,)
    shortcut_weight_ptr,  # bf16 (n_rows,)
    shortcut_bias_ptr,  # bf16 (n_rows,)
    activated_ptr,  # bf16 (n_groups, n_rows, n_cols); may be conv2_ptr
    n_groups,
    n_rows,
    n_cols,
    eps: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program computes a block of ROWS x COLS elements; arithmetic in float32."""
    n_flat_rows = n_groups * n_rows
    flat_row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    in_rows = flat_row < n_flat_rows
    in_range = in_rows & (col < n_cols)
    row = flat_row % n_rows
    at = flat_row * n_cols + col

    conv2 = tl.load(conv2_ptr + at, mask=in_range).to(tl.float32)
    features = tl.load(features_ptr + at, mask=in_range).to(tl.float32)
    running_var = tl.load(running_var_ptr + row, mask=in_rows).to(tl.float32)

    rstd = tl.rsqrt(running_var + eps)

    running_mean = tl.load(running_mean_ptr + row, mask=in_rows).to(tl.float32)
    weight = tl.load(weight_ptr + row, mask=in_rows).to(tl.float32)
    bias = tl.load(bias_ptr + row, mask=in_rows).to(tl.float32)

    out = (conv2 - running_mean) * rstd * weight + bias

    shortcut_running_var = tl.load(shortcut_running_var_ptr + row, mask=in_rows).to(tl.float32)
    shortcut_rstd = tl.rsqrt(shortcut_running_var + eps)

    shortcut_running_mean = tl.load(shortcut_running_mean_ptr + row, mask=in_rows).to(tl.float32)
    shortcut_weight = tl.load(shortcut_weight_ptr + row, mask=in_rows).to(tl.float32)
    product = (features - shortcut_running_mean) * shortcut_rstd * shortcut_weight

    shortcut_bias = tl.load(shortcut_bias_ptr + row, mask=in_rows).to(tl.float32)
    total = out + (product + shortcut_bias)
    tl.store(activated_ptr + at, nan_maximum(total, 0.0), mask=in_range)


def batch_norm_add_relu(
    conv2,
    running_mean,
    running_var,
    weight,
    bias,
    features,
    shortcut_running_mean,
    shortcut_running_var,
    shortcut_weight,
    shortcut_bias,
    activated,
    n_groups,
    n_rows,
    n_cols,
    eps,
):
    """Fill activated."""
    n_flat_rows = n_groups * n_rows
    cols = min(COLS, next_power_of_2(n_cols))
    rows = max(1, ELEMENTS // cols)
    grid = (ceil_div(n_flat_rows, rows), ceil_div(n_cols, cols))
    batch_norm_add_relu_kernel[grid](
        conv2,
        running_mean,
        running_var,
        weight,
        bias,
        features,
        shortcut_running_mean,
        shortcut_running_var,
        shortcut_weight,
        shortcut_bias,
        activated,
        n_groups,
        n_rows,
        n_cols,
        eps,
        ROWS=rows,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(
    conv2,
    running_mean,
    running_var,
    weight,
    bias,
    features,
    shortcut_running_mean,
    shortcut_running_var,
    shortcut_weight,
    shortcut_bias,
    eps,
):
    """What batch_norm_add_relu() must fill activated with."""
    product = (features - shortcut_running_mean) * torch.rsqrt(shortcut_running_var + eps) * shortcut_weight
    total = (
        (conv2 - running_mean) * torch.rsqrt(running_var + eps) * weight + bias + (product + shortcut_bias)
    )
    return torch.relu(total)
