"""bias_gelu as kernels for cpu, float32, inference.

    x     float32 (n_rows=4096, n_cols=2048)
    bias  float32 (n_cols,)
    ->    float32 (n_rows, n_cols)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_tensor, empty


def bias_gelu(x, bias):
    """Computes what examples.fused_ops.bias_gelu does."""
    check_tensor("x", x, dtype=torch.float32, shape=(4096, 2048), device="cpu")
    check_tensor("bias", bias, dtype=torch.float32, shape=(2048,), device=x.device)
    n_rows, n_cols = x.shape

    # bias_gelu    return F.gelu(x + bias)
    activated = empty(x.shape, torch.float32)
    kernels.bias_gelu(x, bias, activated, n_rows=n_rows, n_cols=n_cols)
    return activated
