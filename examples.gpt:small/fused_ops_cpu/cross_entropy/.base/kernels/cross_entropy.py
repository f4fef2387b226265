"""cross_entropy: cross_entropy_loss from labels and logits, in one kernel, row by row. Built from cross_entropy.cpp."""

import torch

from ..runtime import load_kernel

cross_entropy = load_kernel("cross_entropy.cpp")


def reference(labels, logits, n_rows, n_cols, table_size):
    """What cross_entropy() must fill cross_entropy_loss with."""
    logit = logits[
        torch.arange(n_rows, device=labels.device).view(-1, 1) * n_cols
        + torch.arange(n_cols, device=labels.device)
    ]
    row_max = logit.amax(-1, keepdim=True)
    target_logit = torch.where(
        (labels >= 0) & (labels < table_size),
        logits[
            torch.where(
                (labels >= 0) & (labels < table_size),
                torch.arange(n_rows, device=labels.device).view(-1, 1) * n_cols + labels,
                0,
            )
        ],
        torch.nan,
    )
    where = torch.where(
        labels != -100,
        row_max + torch.log(torch.exp(logit - row_max).sum(-1, keepdim=True)) - target_logit,
        0.0,
    )
    return where
