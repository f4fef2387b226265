"""d_layer_norm: d_x, d_weight and d_bias, in one pass over the rows:
    d_x = d_layer_norm(unscaled_d_ln_f * d_loss, x)
    d_weight = sum(unscaled_d_ln_f * d_loss * normalize(x))
    d_bias = sum(unscaled_d_ln_f * d_loss)

The kernel is d_layer_norm.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

d_layer_norm = load_kernel("d_layer_norm.cpp")


def reference(unscaled_d_ln_f, d_loss, weight, x, n_cols, eps):
    """What d_layer_norm() must fill d_x, d_weight and d_bias with."""
    product = unscaled_d_ln_f * d_loss
    d_normalized = product * weight
    centered = x - x.sum(-1, keepdim=True) / n_cols
    rstd = torch.rsqrt((centered * centered).sum(-1, keepdim=True) / n_cols + eps)
    normalized = centered * rstd
    less_means = (
        d_normalized
        - normalized * torch.mean(d_normalized * normalized, -1, keepdim=True)
        - torch.mean(d_normalized, -1, keepdim=True)
    )
    return less_means * rstd, (product * normalized).sum(-2, keepdim=True), product.sum(-2, keepdim=True)
