"""layer_norm_d_layer_norm_add: layer norm, mul, mean, sub and add in one pass, from x, d_x and d_ln_2 to
ln_2, product and d_out, row by row.

The kernel is layer_norm_d_layer_norm_add.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

layer_norm_d_layer_norm_add = load_kernel("layer_norm_d_layer_norm_add.cpp")


def reference(x, weight, bias, d_x, d_ln_2, n_cols, eps):
    """What layer_norm_d_layer_norm_add() must fill ln_2, product and d_out with."""
    centered = x - x.sum(-1, keepdim=True) / n_cols
    rstd = torch.rsqrt((centered * centered).sum(-1, keepdim=True) / n_cols + eps)
    product = centered * rstd
    d_ln_2_product = d_ln_2 * weight
    sub = (
        d_ln_2_product
        - product * torch.mean(d_ln_2_product * product, -1, keepdim=True)
        - torch.mean(d_ln_2_product, -1, keepdim=True)
    )
    return product * weight + bias, product, d_x + sub * rstd
