"""cross_entropy as kernels for cpu, float32, inference.

    logits  float32 (n_rows=2048, n_cols=8192)
    labels  int64 (n_rows,)
    ->      float32 (n_rows,)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_tensor, empty


def cross_entropy(logits, labels):
    """Computes what examples.fused_ops.cross_entropy does."""
    check_tensor("logits", logits, dtype=torch.float32, shape=(2048, 8192), device="cpu")
    check_tensor("labels", labels, dtype=torch.int64, shape=(2048,), device=logits.device)
    n_rows, n_cols = logits.shape

    # cross_entropy    return F.cross_entropy(logits.float(), labels, reduction="none")
    losses = empty((n_rows,), torch.float32)
    kernels.cross_entropy(logits, labels, losses, n_rows=n_rows, n_cols=n_cols)
    return losses
