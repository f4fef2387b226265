"""layer_norm_d_layer_norm_and_d_layer_norm: mul, layer norm, mean and sub in one pass, from x and d_ln_f to
ln_f and d_x, row by row.

The kernel is layer_norm_d_layer_norm_and_d_layer_norm.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

layer_norm_d_layer_norm_and_d_layer_norm = load_kernel("layer_norm_d_layer_norm_and_d_layer_norm.cpp")


def reference(x, d_ln_f, weight, n_cols, eps):
    """What layer_norm_d_layer_norm_and_d_layer_norm() must fill ln_f and d_x with."""
    centered = x - x.sum(-1, keepdim=True) / n_cols
    rstd = torch.rsqrt((centered * centered).sum(-1, keepdim=True) / n_cols + eps)
    ln_f = centered * rstd
    product = d_ln_f * weight
    difference = (
        product - ln_f * torch.mean(product * ln_f, -1, keepdim=True) - torch.mean(product, -1, keepdim=True)
    )
    return ln_f, difference * rstd
