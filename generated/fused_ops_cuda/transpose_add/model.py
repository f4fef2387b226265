"""transpose_add as kernels for cuda (sm_90), bfloat16, inference.

    x   bfloat16 (n_rows=8192, n_cols=8192)
    y   bfloat16 (n_rows, n_cols)
    ->  bfloat16 (n_cols, n_rows)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_tensor


def transpose_add(x, y):
    """Computes what examples.fused_ops.transpose_add does."""
    check_tensor("x", x, dtype=torch.bfloat16, shape=(8192, 8192), device="cuda")
    check_tensor("y", y, dtype=torch.bfloat16, shape=(8192, 8192), device=x.device)
    n_rows, n_cols = x.shape

    # transpose_add    return x.t().contiguous() + y
    out = x.new_empty(n_cols, n_rows)
    kernels.transpose_add(x, y, out, n_rows=n_cols, n_cols=n_rows)
    return out
