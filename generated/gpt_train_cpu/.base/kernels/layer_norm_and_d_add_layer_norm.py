"""layer_norm_and_d_add_layer_norm: ln_2 = layer_norm(x); normalized = normalize(x); d_x = d_x_plus_mlp +
d_layer_norm(d_ln_2, x), row by row.

The kernel is layer_norm_and_d_add_layer_norm.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

layer_norm_and_d_add_layer_norm = load_kernel("layer_norm_and_d_add_layer_norm.cpp")


def reference(x, weight, bias, d_x_plus_mlp, d_ln_2, n_cols, eps):
    """What layer_norm_and_d_add_layer_norm() must fill ln_2, normalized and d_x with."""
    centered = x - x.sum(-1, keepdim=True) / n_cols
    rstd = torch.rsqrt((centered * centered).sum(-1, keepdim=True) / n_cols + eps)
    normalized = centered * rstd
    d_normalized = d_ln_2 * weight
    difference = (
        d_normalized
        - normalized * torch.mean(d_normalized * normalized, -1, keepdim=True)
        - torch.mean(d_normalized, -1, keepdim=True)
    )
    return normalized * weight + bias, normalized, d_x_plus_mlp + difference * rstd
