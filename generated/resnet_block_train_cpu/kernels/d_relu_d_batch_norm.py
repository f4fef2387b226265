"""d_relu_d_batch_norm: d_weight, d_shortcut and d_bias, channel by channel:
    d_out = d_relu(d_activated, activated)
    d_weight = sum(d_out * normalize(shortcut))
    d_shortcut = d_batch_norm(d_out, shortcut)
    d_bias = sum(d_out)

The kernel is d_relu_d_batch_norm.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

d_relu_d_batch_norm = load_kernel("d_relu_d_batch_norm.cpp")


def reference(activated, d_activated, shortcut, shortcut_mean, shortcut_rstd, weight, n_batches, n_pixels):
    """What d_relu_d_batch_norm() must fill d_weight, d_shortcut and d_bias with."""
    d_out = torch.where(activated.transpose(0, 1) <= 0.0, 0.0, d_activated.transpose(0, 1))
    normalized = (shortcut.transpose(0, 1) - shortcut_mean) * shortcut_rstd
    d_weight = (d_out * normalized).sum((-2, -1), keepdim=True)
    d_bias = d_out.sum((-2, -1), keepdim=True)
    difference = d_out - d_bias / (n_batches * n_pixels) - normalized * (d_weight / (n_batches * n_pixels))
    return d_weight, difference * (shortcut_rstd * weight), d_bias
