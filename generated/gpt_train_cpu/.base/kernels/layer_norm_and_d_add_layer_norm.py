"""layer_norm_and_d_add_layer_norm: out, d_x, d_bias and d_weight, in one pass over the rows:
    out = layer_norm(x)
    d_x = d_out + d_layer_norm(d_other_out, x)
    d_bias = sum(d_other_out)
    d_weight = sum(d_other_out * normalize(x))

The kernel is layer_norm_and_d_add_layer_norm.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

layer_norm_and_d_add_layer_norm = load_kernel("layer_norm_and_d_add_layer_norm.cpp")


def reference(x, weight, bias, d_out, d_other_out, n_cols, eps):
    """What layer_norm_and_d_add_layer_norm() must fill out, d_x, d_bias and d_weight with."""
    centered = x - x.sum(-1, keepdim=True) / n_cols
    rstd = torch.rsqrt((centered * centered).sum(-1, keepdim=True) / n_cols + eps)
    normalized = centered * rstd
    d_normalized = d_other_out * weight
    difference = (
        d_normalized
        - normalized * torch.mean(d_normalized * normalized, -1, keepdim=True)
        - torch.mean(d_normalized, -1, keepdim=True)
    )
    return (
        normalized * weight + bias,
        d_out + difference * rstd,
        d_other_out.sum(-2, keepdim=True),
        (d_other_out * normalized).sum(-2, keepdim=True),
    )
