"""cross_entropy_d_cross_entropy: cross entropy, softmax, eq, sub and more in one pass, from logits to
cross_entropy_loss_losses and selected, row by row.

The kernel is cross_entropy_d_cross_entropy.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

cross_entropy_d_cross_entropy = load_kernel("cross_entropy_d_cross_entropy.cpp")


def reference(targets, logits, ne, sums, n_rows, n_cols):
    """What cross_entropy_d_cross_entropy() must fill cross_entropy_loss_losses and selected with."""
    row = torch.arange(n_rows, device=targets.device).view(-1, 1)
    col = torch.arange(n_cols, device=targets.device)
    at = row * n_cols + col
    logit = logits[at]
    row_max = logit.amax(-1, keepdim=True)
    numerator = torch.exp(logit - row_max)
    denominator = numerator.sum(-1, keepdim=True)
    target_logit = torch.where(
        (targets >= 0) & (targets < n_cols),
        logits[torch.where((targets >= 0) & (targets < n_cols), row * n_cols + targets, 0)],
        torch.nan,
    )
    ratio = numerator / denominator
    return torch.where(targets != -100, row_max + torch.log(denominator) - target_logit, 0.0), torch.where(
        ne, torch.where(col == targets, ratio - 1.0, ratio) / sums.float(), 0.0
    )
