"""d_gelu: hidden = gelu(x); d_widen = d_hidden * gelu'(x); d_bias = sum(d_widen), column by column.

The kernel is d_gelu.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

d_gelu = load_kernel("d_gelu.cpp")


def reference(x, d_hidden):
    """What d_gelu() must fill hidden, d_widen and d_bias with."""
    x_i_squared = x * x
    sigmoid = torch.sigmoid((x + x_i_squared * x * 0.044715) * (2 * (2 / torch.pi) ** 0.5))
    hidden = x * sigmoid
    product = hidden * (1.0 - sigmoid) * ((x_i_squared * 0.134145 + 1.0) * (2 * (2 / torch.pi) ** 0.5))
    d_widen = d_hidden * (sigmoid + product)
    return hidden, d_widen, d_widen.sum(-2, keepdim=True)
