"""batch_norm_add_relu: activated = relu(batch_norm(conv2) + batch_norm(shortcut)).

    ResNetBlock.forward    out = self.bn2(self.conv2(out))
    ResNetBlock.forward    out = out + self.shortcut(x)
    ResNetBlock.forward    return F.relu(out)

In PyTorch calls, those of its reference: as a kernel it does not compile for sm_90.
"""

import torch

from ..runtime import fill, window


def batch_norm_add_relu(
    conv2,
    bn2_mean,
    bn2_rstd,
    bn2_weight,
    bn2_bias,
    shortcut,
    shortcut_mean,
    shortcut_rstd,
    shortcut_1_weight,
    shortcut_1_bias,
    activated,
    n_batches,
    n_channels,
    n_pixels,
):
    """Fills activated."""
    fill(
        (window(activated, (n_batches, n_channels, n_pixels), (n_channels * n_pixels, n_pixels, 1)),),
        reference(
            window(conv2, (n_batches, n_channels, n_pixels), (n_channels * n_pixels, n_pixels, 1)),
            window(bn2_mean, (n_channels, 1), (1, 0)),
            window(bn2_rstd, (n_channels, 1), (1, 0)),
            window(bn2_weight, (n_channels, 1), (1, 0)),
            window(bn2_bias, (n_channels, 1), (1, 0)),
            window(shortcut, (n_batches, n_channels, n_pixels), (n_channels * n_pixels, n_pixels, 1)),
            window(shortcut_mean, (n_channels, 1), (1, 0)),
            window(shortcut_rstd, (n_channels, 1), (1, 0)),
            window(shortcut_1_weight, (n_channels, 1), (1, 0)),
            window(shortcut_1_bias, (n_channels, 1), (1, 0)),
        ),
    )


def reference(
    conv2,
    bn2_mean,
    bn2_rstd,
    bn2_weight,
    bn2_bias,
    shortcut,
    shortcut_mean,
    shortcut_rstd,
    shortcut_1_weight,
    shortcut_1_bias,
):
    """What batch_norm_add_relu() must fill activated with."""
    out = (
        (conv2 - bn2_mean) * bn2_rstd * bn2_weight
        + bn2_bias
        + ((shortcut - shortcut_mean) * shortcut_rstd * shortcut_1_weight + shortcut_1_bias)
    )
    return torch.relu(out)
