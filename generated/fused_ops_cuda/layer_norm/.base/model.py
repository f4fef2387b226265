"""layer_norm as kernels for cuda (sm_90), bfloat16, inference.

    x       bfloat16 (n_rows=16384, n_cols=4096)
    r       bfloat16 (n_rows, n_cols)
    weight  bfloat16 (n_cols,)
    bias    bfloat16 (n_cols,)
    ->      bfloat16 (n_rows, n_cols)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_tensor

EPS = 1e-5


def layer_norm(x, r, weight, bias):
    """Computes what examples.fused_ops.layer_norm does."""
    check_tensor("x", x, dtype=torch.bfloat16, shape=(16384, 4096), device="cuda")
    check_tensor("r", r, dtype=torch.bfloat16, shape=(16384, 4096), device=x.device)
    check_tensor("weight", weight, dtype=torch.bfloat16, shape=(4096,), device=x.device)
    check_tensor("bias", bias, dtype=torch.bfloat16, shape=(4096,), device=x.device)
    n_rows, n_cols = x.shape

    # layer_norm    h = x + r; return F.layer_norm(h, (h.shape[-1],), weight, bias)
    normed = torch.empty_like(x)
    kernels.add_layer_norm(x, r, weight, bias, normed, n_rows=n_rows, n_cols=n_cols, eps=EPS)
    return normed
