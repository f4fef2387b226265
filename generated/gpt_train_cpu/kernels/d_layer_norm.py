"""d_layer_norm: d_x, d_weight and d_bias, in one pass over the rows:
    d_x = d_layer_norm(unscaled_d_ln_f * d_loss, x)
    d_weight = sum(unscaled_d_ln_f * d_loss * normalize(x))
    d_bias = sum(unscaled_d_ln_f * d_loss)

The kernel is d_layer_norm.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

d_layer_norm = load_kernel("d_layer_norm.cpp")


def reference(unscaled_d_ln_f, d_loss, weight, x, eps):
    """What d_layer_norm() must fill d_x, d_weight and d_bias with."""
    d_ln_f = unscaled_d_ln_f * d_loss
    ln_f_d_normalized = unscaled_d_ln_f * weight
    centered = x - x.mean(-1, keepdim=True)
    rstd = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + eps)
    normalized = centered * rstd
    product = d_loss * normalized * (torch.mean(ln_f_d_normalized * centered, -1, keepdim=True) * rstd)
    d_x = (d_ln_f * weight - d_loss * torch.mean(ln_f_d_normalized, -1, keepdim=True) - product) * rstd
    return d_x, (d_ln_f * normalized).sum(-2, keepdim=True), d_ln_f.sum(-2, keepdim=True)
