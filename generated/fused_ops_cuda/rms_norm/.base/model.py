"""rms_norm as kernels for cuda (sm_90), bfloat16, inference.

    x       bfloat16 (n_rows=16384, n_cols=4096)
    weight  bfloat16 (n_cols,)
    ->      bfloat16 (n_rows, n_cols)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_tensor

EPS = 1e-6


def rms_norm(x, weight):
    """Computes what examples.fused_ops.rms_norm does."""
    check_tensor("x", x, dtype=torch.bfloat16, shape=(16384, 4096), device="cuda")
    check_tensor("weight", weight, dtype=torch.bfloat16, shape=(4096,), device=x.device)
    n_rows, n_cols = x.shape

    # rms_norm    return F.rms_norm(x, (x.shape[-1],), weight, eps=1e-6)
    normed = torch.empty_like(x)
    kernels.rms_norm(x, weight, normed, n_rows=n_rows, n_cols=n_cols, eps=EPS)
    return normed
