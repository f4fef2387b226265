"""d_layer_norm: d_x, d_weight and d_bias, in one pass over the rows:
    rstd = rsqrt(var(x) + eps)
    normalized = (x - mean(x)) * rstd
    ln_f_d_normalized = unscaled_d_ln_f * weight
    d_ln_f = unscaled_d_ln_f * d_loss
    product = d_loss * normalized * mean(ln_f_d_normalized * normalized)
    d_x = (d_ln_f * weight - mean(weight * d_ln_f) - product) * rstd
    d_weight = sum(d_ln_f * normalized)
    d_bias = sum(d_ln_f)

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
