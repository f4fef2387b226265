"""d_layer_norm: d_ln_f = unscaled_d_ln_f * d_loss; normalized = normalize(x); d_x = d_layer_norm(d_ln_f, x),
row by row.

The kernel is d_layer_norm.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

d_layer_norm = load_kernel("d_layer_norm.cpp")


def reference(unscaled_d_ln_f, d_loss, x, weight, n_cols, eps):
    """What d_layer_norm() must fill d_ln_f, normalized and d_x with."""
    d_ln_f = unscaled_d_ln_f * d_loss
    centered = x - x.sum(-1, keepdim=True) / n_cols
    rstd = torch.rsqrt((centered * centered).sum(-1, keepdim=True) / n_cols + eps)
    normalized = centered * rstd
    d_normalized = d_ln_f * weight
    difference = (
        d_normalized
        - normalized * torch.mean(d_normalized * normalized, -1, keepdim=True)
        - torch.mean(d_normalized, -1, keepdim=True)
    )
    return d_ln_f, normalized, difference * rstd
