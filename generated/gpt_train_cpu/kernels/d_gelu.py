"""d_gelu: hidden = gelu(widen_out); d_widen_out = d_hidden * gelu'(widen_out); d_bias = sum(d_widen_out).

The kernel is d_gelu.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

d_gelu = load_kernel("d_gelu.cpp")


def reference(widen_out, d_hidden):
    """What d_gelu() must fill hidden, d_widen_out and d_bias with."""
    widen_out_i_squared = widen_out * widen_out
    product = (widen_out + widen_out_i_squared * widen_out * 0.044715) * (2 * (2 / torch.pi) ** 0.5)
    sigmoid = torch.sigmoid(product)
    hidden = widen_out * sigmoid
    second_product = (
        hidden * (1.0 - sigmoid) * ((widen_out_i_squared * 0.134145 + 1.0) * (2 * (2 / torch.pi) ** 0.5))
    )
    d_widen_out = d_hidden * (sigmoid + second_product)
    return hidden, d_widen_out, d_widen_out.sum(-2, keepdim=True)
