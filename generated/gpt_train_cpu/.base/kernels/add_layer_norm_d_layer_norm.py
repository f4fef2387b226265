"""add_layer_norm_d_layer_norm: ln_f, part and gpt by add, layer norm and mul in one pass, row by row.

The kernel is add_layer_norm_d_layer_norm.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

add_layer_norm_d_layer_norm = load_kernel("add_layer_norm_d_layer_norm.cpp")


def reference(x, mlp, weight, bias, n_cols, eps):
    """What add_layer_norm_d_layer_norm() must fill ln_f, part and gpt with."""
    blocks_x = x + mlp
    centered = blocks_x - blocks_x.sum(-1, keepdim=True) / n_cols
    part = torch.rsqrt((centered * centered).sum(-1, keepdim=True) / n_cols + eps)
    gpt = centered * part
    return gpt * weight + bias, part, gpt
