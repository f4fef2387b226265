"""d_add_layer_norm: normed, d_x, d_bias and d_weight, in one pass over the rows:
    rstd = rsqrt(var(x) + eps)
    normalized = (x - mean(x)) * rstd
    normed = normalized * weight + bias
    d_normalized = d_normed * weight
    d_x = d_out + (d_normalized - mean(d_normalized) - normalized * mean(d_normalized * normalized)) * rstd
    d_bias = sum(d_normed)
    d_weight = sum(d_normed * normalized)

The kernel is d_add_layer_norm.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

d_add_layer_norm = load_kernel("d_add_layer_norm.cpp")


def reference(x, weight, bias, d_out, d_normed, eps):
    """What d_add_layer_norm() must fill normed, d_x, d_bias and d_weight with."""
    centered = x - x.mean(-1, keepdim=True)
    rstd = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + eps)
    normalized = centered * rstd
    d_normalized = d_normed * weight
    less_means = (
        d_normalized
        - torch.mean(d_normalized, -1, keepdim=True)
        - normalized * (torch.mean(d_normalized * centered, -1, keepdim=True) * rstd)
    )
    return (
        normalized * weight + bias,
        d_out + less_means * rstd,
        d_normed.sum(-2, keepdim=True),
        (d_normed * normalized).sum(-2, keepdim=True),
    )
