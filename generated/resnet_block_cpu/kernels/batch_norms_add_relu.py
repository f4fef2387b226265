"""batch_norms_add_relu: activated = relu(batch_norm(conv2_out) + batch_norm(shortcut_out)).

The kernel is batch_norms_add_relu.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

batch_norms_add_relu = load_kernel("batch_norms_add_relu.cpp")


def reference(
    conv2_out,
    bn2_running_mean,
    bn2_running_var,
    bn2_weight,
    bn2_bias,
    shortcut_out,
    shortcut_running_mean,
    shortcut_running_var,
    shortcut_weight,
    shortcut_bias,
    eps,
):
    """What batch_norms_add_relu() must fill activated with."""
    out = (conv2_out - bn2_running_mean) * torch.rsqrt(bn2_running_var + eps) * bn2_weight + bn2_bias
    weighted = (
        (shortcut_out - shortcut_running_mean) * torch.rsqrt(shortcut_running_var + eps) * shortcut_weight
    )
    return torch.relu(out + (weighted + shortcut_bias))
