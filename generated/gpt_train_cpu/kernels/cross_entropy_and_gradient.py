"""cross_entropy_and_gradient: losses and unscaled_d_logits, row by row:
    losses = cross_entropy(logits, targets)
    unscaled_d_logits = d_cross_entropy(logits, targets, n_counted)

The kernel is cross_entropy_and_gradient.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

cross_entropy_and_gradient = load_kernel("cross_entropy_and_gradient.cpp")


def reference(logits, targets, n_counted, n_rows, n_cols):
    """What cross_entropy_and_gradient() must fill losses and unscaled_d_logits with."""
    counts = targets != -100
    row = torch.arange(n_rows, device=logits.device).view(-1, 1)
    col = torch.arange(n_cols, device=logits.device)
    at = row * n_cols + col
    logit = logits[at]
    row_max = logit.amax(-1, keepdim=True)
    numerator = torch.exp(logit - row_max)
    denominator = numerator.sum(-1, keepdim=True)
    is_class = (targets >= 0) & (targets < n_cols)
    place = torch.where(is_class, row * n_cols + targets, 0)
    target_logit = torch.where(is_class, logits[place], torch.nan)
    probability = numerator / denominator
    unscaled_d_logits = torch.where(
        counts, torch.where(col == targets, probability - 1.0, probability) / n_counted.float(), 0.0
    )
    return torch.where(counts, torch.log(denominator) - (target_logit - row_max), 0.0), unscaled_d_logits
