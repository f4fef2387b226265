"""bias_gelu as kernels for cuda (sm_90), bfloat16, inference.

    x     bfloat16 (n_rows=16384, n_cols=8192)
    bias  bfloat16 (n_cols,)
    ->    bfloat16 (n_rows, n_cols)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_tensor


def bias_gelu(x, bias):
    """Computes what examples.fused_ops.bias_gelu does."""
    check_tensor("x", x, dtype=torch.bfloat16, shape=(16384, 8192), device="cuda")
    check_tensor("bias", bias, dtype=torch.bfloat16, shape=(8192,), device=x.device)
    n_rows, n_cols = x.shape

    # bias_gelu    return F.gelu(x + bias)
    activated = torch.empty_like(x)
    kernels.bias_gelu(x, bias, activated, n_rows=n_rows, n_cols=n_cols)
    return activated
