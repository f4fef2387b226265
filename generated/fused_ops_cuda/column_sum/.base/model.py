"""column_sum as kernels for cuda (sm_90), bfloat16, inference.

    x   bfloat16 (n_rows=65536, n_cols=2048)
    ->  bfloat16 (n_cols,)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_tensor


def column_sum(x):
    """Computes what examples.fused_ops.column_sum does."""
    check_tensor("x", x, dtype=torch.bfloat16, shape=(65536, 2048), device="cuda")
    n_rows, n_cols = x.shape

    # column_sum    return (x * 2).sum(0)
    sums = x.new_empty(n_cols)
    kernels.column_sum(x, sums, n_rows=n_rows, n_cols=n_cols)
    return sums
