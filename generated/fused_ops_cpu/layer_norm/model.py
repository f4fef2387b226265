"""layer_norm as kernels for cpu, float32, inference.

    x       float32 (n_rows=4096, n_cols=1024)
    r       float32 (n_rows, n_cols)
    weight  float32 (n_cols,)
    bias    float32 (n_cols,)
    ->      float32 (n_rows, n_cols)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_tensor, empty

EPS = 1e-5


def layer_norm(x, r, weight, bias):
    """Computes what examples.fused_ops.layer_norm does."""
    check_tensor("x", x, dtype=torch.float32, shape=(4096, 1024), device="cpu")
    check_tensor("r", r, dtype=torch.float32, shape=(4096, 1024), device=x.device)
    check_tensor("weight", weight, dtype=torch.float32, shape=(1024,), device=x.device)
    check_tensor("bias", bias, dtype=torch.float32, shape=(1024,), device=x.device)
    n_rows, n_cols = x.shape

    # layer_norm    h = x + r; return F.layer_norm(h, (h.shape[-1],), weight, bias)
    normed = empty(x.shape, torch.float32)
    kernels.add_layer_norm(x, r, weight, bias, normed, n_rows=n_rows, n_cols=n_cols, eps=EPS)
    return normed
