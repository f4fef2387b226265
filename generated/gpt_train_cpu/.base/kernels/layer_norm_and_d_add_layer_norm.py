"""layer_norm_and_d_add_layer_norm: ln_2, d_x, d_bias and d_weight, in one pass over the rows:
    ln_2 = layer_norm(x)
    d_x = d_x_plus_mlp + d_layer_norm(d_ln_2, x)
    d_bias = sum(d_ln_2)
    d_weight = sum(d_ln_2 * normalize(x))

The kernel is layer_norm_and_d_add_layer_norm.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

layer_norm_and_d_add_layer_norm = load_kernel("layer_norm_and_d_add_layer_norm.cpp")


def reference(x, weight, bias, d_x_plus_mlp, d_ln_2, n_cols, eps):
    """What layer_norm_and_d_add_layer_norm() must fill ln_2, d_x, d_bias and d_weight with."""
    centered = x - x.sum(-1, keepdim=True) / n_cols
    rstd = torch.rsqrt((centered * centered).sum(-1, keepdim=True) / n_cols + eps)
    normalized = centered * rstd
    d_normalized = d_ln_2 * weight
    difference = (
        d_normalized
        - normalized * torch.mean(d_normalized * normalized, -1, keepdim=True)
        - torch.mean(d_normalized, -1, keepdim=True)
    )
    return (
        normalized * weight + bias,
        d_x_plus_mlp + difference * rstd,
        d_ln_2.sum(-2, keepdim=True),
        (d_ln_2 * normalized).sum(-2, keepdim=True),
    )
