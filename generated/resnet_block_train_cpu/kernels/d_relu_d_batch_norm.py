"""d_relu_d_batch_norm: d_weight, d_x and d_bias, channel by channel:
    d_weight = sum(d_relu(d_out, out) * normalize(x))
    d_x = d_batch_norm(d_relu(d_out, out), x)
    d_bias = sum(d_relu(d_out, out))

The kernel is d_relu_d_batch_norm.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

d_relu_d_batch_norm = load_kernel("d_relu_d_batch_norm.cpp")


def reference(out, d_out, x, mean, rstd, weight, n_batches, n_pixels):
    """What d_relu_d_batch_norm() must fill d_weight, d_x and d_bias with."""
    masked_d_out = torch.where(out.transpose(0, 1) <= 0.0, 0.0, d_out.transpose(0, 1))
    normalized = (x.transpose(0, 1) - mean) * rstd
    d_weight = (masked_d_out * normalized).sum((-2, -1), keepdim=True)
    d_bias = masked_d_out.sum((-2, -1), keepdim=True)
    less_means = (
        masked_d_out - d_bias / (n_batches * n_pixels) - normalized * (d_weight / (n_batches * n_pixels))
    )
    return d_weight, less_means * (rstd * weight), d_bias
