"""d_layer_norm: normalized = normalize(x); d_x = d_layer_norm(d_ln_f, x), row by row.

The kernel is d_layer_norm.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

d_layer_norm = load_kernel("d_layer_norm.cpp")


def reference(x, d_ln_f, weight, n_cols, eps):
    """What d_layer_norm() must fill normalized and d_x with."""
    centered = x - x.sum(-1, keepdim=True) / n_cols
    rstd = torch.rsqrt((centered * centered).sum(-1, keepdim=True) / n_cols + eps)
    normalized = centered * rstd
    d_normalized = d_ln_f * weight
    difference = (
        d_normalized
        - normalized * torch.mean(d_normalized * normalized, -1, keepdim=True)
        - torch.mean(d_normalized, -1, keepdim=True)
    )
    return normalized, difference * rstd
