"""batch_norm_add_relu: activated from conv2, running_mean, running_var and others, in one kernel. Built from batch_norm_add_relu.cpp."""

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
    batch_norm_product = (
        (features - shortcut_running_mean) * torch.rsqrt(shortcut_running_var + eps) * shortcut_weight
    )
    total = (
        (conv2 - running_mean) * torch.rsqrt(running_var + eps) * weight
        + bias
        + (batch_norm_product + shortcut_bias)
    )
    return torch.relu(total)
