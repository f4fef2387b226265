"""softmax as kernels for cuda (sm_90), bfloat16, inference.

    x   bfloat16 (n_rows=16384, n_cols=4096)
    w   bfloat16 (n_cols,)
    ->  bfloat16 (n_rows, n_cols)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_tensor


def softmax(x, w):
    """Computes what examples.fused_ops.softmax does."""
    check_tensor("x", x, dtype=torch.bfloat16, shape=(16384, 4096), device="cuda")
    check_tensor("w", w, dtype=torch.bfloat16, shape=(4096,), device=x.device)
    n_rows, n_cols = x.shape

    # softmax    scores = x * 0.125 + w; return torch.softmax(scores, dim=-1)
    weights = torch.empty_like(x)
    kernels.softmax(x, w, weights, n_rows=n_rows, n_cols=n_cols)
    return weights
