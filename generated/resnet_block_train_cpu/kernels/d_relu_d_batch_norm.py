"""d_relu_d_batch_norm: d_weight, d_x and d_bias, channel by channel:
    d_weight = sum(d_relu(d_out, x) * normalize(y))
    d_x = d_batch_norm(d_relu(d_out, x), y)
    d_bias = sum(d_relu(d_out, x))

The kernel is d_relu_d_batch_norm.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

d_relu_d_batch_norm = load_kernel("d_relu_d_batch_norm.cpp")


def reference(x, d_out, y, z, x_in, weight, n_batches, n_pixels):
    """What d_relu_d_batch_norm() must fill d_weight, d_x and d_bias with."""
    masked_d_out = torch.where(x.transpose(0, 1) <= 0.0, 0.0, d_out.transpose(0, 1))
    normalized = (y.transpose(0, 1) - z) * x_in
    d_weight = (masked_d_out * normalized).sum((-2, -1), keepdim=True)
    d_bias = masked_d_out.sum((-2, -1), keepdim=True)
    difference = (
        masked_d_out - d_bias / (n_batches * n_pixels) - normalized * (d_weight / (n_batches * n_pixels))
    )
    return d_weight, difference * (x_in * weight), d_bias
