"""cross_entropy as kernels for cuda (sm_90), bfloat16, inference.

    logits  bfloat16 (n_rows=8192, n_cols=32768)
    labels  int64 (n_rows,)
    ->      float32 (n_rows,)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_tensor


def cross_entropy(logits, labels):
    """Computes what examples.fused_ops.cross_entropy does."""
    check_tensor("logits", logits, dtype=torch.bfloat16, shape=(8192, 32768), device="cuda")
    check_tensor("labels", labels, dtype=torch.int64, shape=(8192,), device=logits.device)
    n_rows, n_cols = logits.shape

    # cross_entropy    return F.cross_entropy(logits.float(), labels, reduction="none")
    losses = torch.empty(n_rows, dtype=torch.float32, device=logits.device)
    kernels.cross_entropy(logits, labels, losses, n_rows=n_rows, n_cols=n_cols)
    return losses
