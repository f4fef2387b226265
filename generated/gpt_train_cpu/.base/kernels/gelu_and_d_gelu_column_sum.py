"""gelu_and_d_gelu_column_sum: hidden, d_widen and d_bias, column by column:
    hidden = gelu(widen)
    d_widen = d_gelu(d_hidden, widen)
    d_bias = sum(d_widen)

The kernel is gelu_and_d_gelu_column_sum.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

gelu_and_d_gelu_column_sum = load_kernel("gelu_and_d_gelu_column_sum.cpp")


def reference(widen, d_hidden):
    """What gelu_and_d_gelu_column_sum() must fill hidden, d_widen and d_bias with."""
    widen_i_squared = widen * widen
    sigmoid = torch.sigmoid((widen + widen_i_squared * widen * 0.044715) * (2 * (2 / torch.pi) ** 0.5))
    hidden = widen * sigmoid
    product = hidden * (1.0 - sigmoid) * ((widen_i_squared * 0.134145 + 1.0) * (2 * (2 / torch.pi) ** 0.5))
    d_widen = d_hidden * (sigmoid + product)
    return hidden, d_widen, d_widen.sum(-2, keepdim=True)
