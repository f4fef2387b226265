"""transpose_add as kernels for cpu, float32, inference.

    x   float32 (n_rows=2048, n_cols=2048)
    y   float32 (n_rows, n_cols)
    ->  float32 (n_cols, n_rows)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_tensor, empty


def transpose_add(x, y):
    """Computes what examples.fused_ops.transpose_add does."""
    check_tensor("x", x, dtype=torch.float32, shape=(2048, 2048), device="cpu")
    check_tensor("y", y, dtype=torch.float32, shape=(2048, 2048), device=x.device)
    n_rows, n_cols = x.shape

    # transpose_add    return x.t().contiguous() + y
    out = empty((n_cols, n_rows), torch.float32)
    kernels.transpose_add(x, y, out, n_rows=n_cols, n_cols=n_rows)
    return out
