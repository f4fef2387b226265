"""batch_norm_add_relu: activated by batch norm, add and relu in one pass.

The kernel is batch_norm_add_relu.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

batch_norm_add_relu = load_kernel("batch_norm_add_relu.cpp")


def reference(
    conv2,
    running_mean,
    running_var,
    weight,
    bias,
    features,
    shortcut_running_mean,
    shortcut_running_var,
    shortcut_weight,
    shortcut_bias,
    eps,
):
    """What batch_norm_add_relu() must fill activated with."""
    product = (features - shortcut_running_mean) * torch.rsqrt(shortcut_running_var + eps) * shortcut_weight
    out = (conv2 - running_mean) * torch.rsqrt(running_var + eps) * weight + bias + (product + shortcut_bias)
    return torch.relu(out)
