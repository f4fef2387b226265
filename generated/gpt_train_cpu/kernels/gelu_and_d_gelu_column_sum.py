"""gelu_and_d_gelu_column_sum: hidden = gelu(widen); d_widen = d_gelu(d_hidden, widen); d_bias = sum(d_widen),
column by column.

The kernel is gelu_and_d_gelu_column_sum.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

gelu_and_d_gelu_column_sum = load_kernel("gelu_and_d_gelu_column_sum.cpp")


def reference(widen, d_hidden):
    """What gelu_and_d_gelu_column_sum() must fill hidden, d_widen and d_bias with."""
    widen_value_squared = widen * widen
    cubic = widen + widen_value_squared * widen * 0.044715
    mlp_tanh = torch.tanh(cubic * 0.7978845608028654)
    product = (
        widen
        * 0.5
        * (1.0 - mlp_tanh * mlp_tanh)
        * ((widen_value_squared * 0.134145 + 1.0) * 0.7978845608028654)
    )
    d_widen = d_hidden * ((mlp_tanh + 1.0) * 0.5 + product)
    return widen * torch.sigmoid(cubic * 1.5957691216057308), d_widen, d_widen.sum(-2, keepdim=True)
