"""d_batch_norm_relu: d_weight, d_x and d_bias, channel by channel:
    normalized = (x - mean) * rstd
    masked_d_out = where(out <= 0.0, 0.0, d_out)
    d_weight = sum(masked_d_out * normalized)
    d_x = (masked_d_out - mean(masked_d_out) - normalized * mean(masked_d_out * normalized)) * (rstd *
        weight)
    d_bias = sum(masked_d_out)

The kernel is d_batch_norm_relu.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

d_batch_norm_relu = load_kernel("d_batch_norm_relu.cpp")


def reference(out, d_out, x, mean, rstd, weight, n_batches, n_pixels):
    """What d_batch_norm_relu() must fill d_weight, d_x and d_bias with."""
    masked_d_out = torch.where(out.transpose(0, 1) <= 0.0, 0.0, d_out.transpose(0, 1))
    normalized = (x.transpose(0, 1) - mean) * rstd
    d_weight = (masked_d_out * normalized).sum((-2, -1), keepdim=True)
    d_bias = masked_d_out.sum((-2, -1), keepdim=True)
    less_means = (
        masked_d_out - d_bias / (n_batches * n_pixels) - normalized * (d_weight / (n_batches * n_pixels))
    )
    return d_weight, less_means * (rstd * weight), d_bias
