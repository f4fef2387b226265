"""transpose_batch_norm_add_relu: activated = relu(batch_norm(conv2) + batch_norm(shortcut)).

    ResNetBlock.forward    out = self.bn2(self.conv2(out))
    ResNetBlock.forward    out = out + self.shortcut(x)
    ResNetBlock.forward    return F.relu(out)

In PyTorch calls, those of its reference: as a kernel it does not compile for sm_90.
"""

import torch

from ..runtime import fill, window


def transpose_batch_norm_add_relu(
    conv2,
    bn2_running_mean,
    bn2_running_var,
    bn2_weight,
    bn2_bias,
    shortcut,
    shortcut_1_running_mean,
    shortcut_1_running_var,
    shortcut_1_weight,
    shortcut_1_bias,
    activated,
    n_batches,
    n_pixels,
    n_channels,
    eps,
):
    """Fills activated."""
    fill(
        (window(activated, (n_batches, n_pixels, n_channels), (n_channels * n_pixels, 1, n_pixels)),),
        reference(
            window(conv2, (n_batches, n_pixels, n_channels), (n_pixels * n_channels, n_channels, 1)),
            window(bn2_running_mean, (n_channels,), (1,)),
            window(bn2_running_var, (n_channels,), (1,)),
            window(bn2_weight, (n_channels,), (1,)),
            window(bn2_bias, (n_channels,), (1,)),
            window(shortcut, (n_batches, n_pixels, n_channels), (n_pixels * n_channels, n_channels, 1)),
            window(shortcut_1_running_mean, (n_channels,), (1,)),
            window(shortcut_1_running_var, (n_channels,), (1,)),
            window(shortcut_1_weight, (n_channels,), (1,)),
            window(shortcut_1_bias, (n_channels,), (1,)),
            eps,
        ),
    )


def reference(
    conv2,
    bn2_running_mean,
    bn2_running_var,
    bn2_weight,
    bn2_bias,
    shortcut,
    shortcut_1_running_mean,
    shortcut_1_running_var,
    shortcut_1_weight,
    shortcut_1_bias,
    eps,
):
    """What transpose_batch_norm_add_relu() must fill activated with."""
    out = (conv2 - bn2_running_mean) * torch.rsqrt(bn2_running_var + eps) * bn2_weight + bn2_bias
    product = (
        (shortcut - shortcut_1_running_mean) * torch.rsqrt(shortcut_1_running_var + eps) * shortcut_1_weight
    )
    return torch.relu(out + (product + shortcut_1_bias))
