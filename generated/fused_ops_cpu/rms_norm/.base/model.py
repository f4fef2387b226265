"""rms_norm as kernels for cpu, float32, inference.

    x       float32 (n_rows=4096, n_cols=1024)
    weight  float32 (n_cols,)
    ->      float32 (n_rows, n_cols)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_tensor, empty

EPS = 1e-6


def rms_norm(x, weight):
    """Computes what examples.fused_ops.rms_norm does."""
    check_tensor("x", x, dtype=torch.float32, shape=(4096, 1024), device="cpu")
    check_tensor("weight", weight, dtype=torch.float32, shape=(1024,), device=x.device)
    n_rows, n_cols = x.shape

    # rms_norm    return F.rms_norm(x, (x.shape[-1],), weight, eps=1e-6)
    normed = empty(x.shape, torch.float32)
    kernels.rms_norm(x, weight, normed, n_rows=n_rows, n_cols=n_cols, eps=EPS)
    return normed
