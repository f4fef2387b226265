"""swiglu as kernels for cpu, float32, inference.

    a   float32 (n_rows=4096, n_cols=2048)
    b   float32 (n_rows, n_cols)
    ->  float32 (n_rows, n_cols)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_tensor, empty


def swiglu(a, b):
    """Computes what examples.fused_ops.swiglu does."""
    check_tensor("a", a, dtype=torch.float32, shape=(4096, 2048), device="cpu")
    check_tensor("b", b, dtype=torch.float32, shape=(4096, 2048), device=a.device)
    n_rows, n_cols = a.shape

    # swiglu    return F.silu(a) * b
    gated = empty(a.shape, torch.float32)
    kernels.swiglu(a, b, gated, n_elements=n_rows * n_cols)
    return gated
