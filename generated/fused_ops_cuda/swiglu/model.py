"""swiglu as kernels for cuda (sm_90), bfloat16, inference.

    a   bfloat16 (n_rows=16384, n_cols=8192)
    b   bfloat16 (n_rows, n_cols)
    ->  bfloat16 (n_rows, n_cols)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_tensor


def swiglu(a, b):
    """Computes what examples.fused_ops.swiglu does."""
    check_tensor("a", a, dtype=torch.bfloat16, shape=(16384, 8192), device="cuda")
    check_tensor("b", b, dtype=torch.bfloat16, shape=(16384, 8192), device=a.device)
    n_rows, n_cols = a.shape

    # swiglu    return F.silu(a) * b
    gated = torch.empty_like(a)
    kernels.swiglu(a, b, gated, n_elements=n_rows * n_cols)
    return gated
