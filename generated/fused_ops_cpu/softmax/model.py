"""softmax as kernels for cpu, float32, inference.

    x   float32 (n_rows=4096, n_cols=1024)
    w   float32 (n_cols,)
    ->  float32 (n_rows, n_cols)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_tensor, empty


def softmax(x, w):
    """Computes what examples.fused_ops.softmax does."""
    check_tensor("x", x, dtype=torch.float32, shape=(4096, 1024), device="cpu")
    check_tensor("w", w, dtype=torch.float32, shape=(1024,), device=x.device)
    n_rows, n_cols = x.shape

    # softmax    scores = x * 0.125 + w; return torch.softmax(scores, dim=-1)
    weights = empty(x.shape, torch.float32)
    kernels.softmax(x, w, weights, n_rows=n_rows, n_cols=n_cols)
    return weights
