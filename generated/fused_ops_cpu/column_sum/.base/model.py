"""column_sum as kernels for cpu, float32, inference.

    x   float32 (n_rows=16384, n_cols=512)
    ->  float32 (n_cols,)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_tensor, empty


def column_sum(x):
    """Computes what examples.fused_ops.column_sum does."""
    check_tensor("x", x, dtype=torch.float32, shape=(16384, 512), device="cpu")
    n_rows, n_cols = x.shape

    # column_sum    return (x * 2).sum(0)
    sums = empty((n_cols,), torch.float32)
    kernels.column_sum(x, sums, n_rows=n_rows, n_cols=n_cols)
    return sums
