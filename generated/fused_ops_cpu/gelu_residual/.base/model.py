"""gelu_residual as kernels for cpu, float32, inference.

    x         float32 (n_rows=4096, n_cols=2048)
    bias      float32 (n_cols,)
    residual  float32 (n_rows, n_cols)
    ->        float32 (n_rows, n_cols)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_tensor, empty


def gelu_residual(x, bias, residual):
    """Computes what examples.fused_ops.gelu_residual does."""
    check_tensor("x", x, dtype=torch.float32, shape=(4096, 2048), device="cpu")
    check_tensor("bias", bias, dtype=torch.float32, shape=(2048,), device=x.device)
    check_tensor("residual", residual, dtype=torch.float32, shape=(4096, 2048), device=x.device)
    n_rows, n_cols = x.shape

    # gelu_residual    return F.gelu(x + bias, approximate="tanh") + residual
    out = empty(x.shape, torch.float32)
    kernels.gelu_residual(x, bias, residual, out, n_rows=n_rows, n_cols=n_cols)
    return out
