"""batch_norm_relu: out = relu(batch_norm(conv1)).

    ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))

In PyTorch calls, those of its reference: as a kernel it does not compile for sm_90.
"""

import torch

from ..runtime import fill, window


def batch_norm_relu(conv1, bn1_mean, bn1_rstd, weight, bias, out, n_batches, n_channels, n_pixels):
    """Fills out."""
    fill(
        (window(out, (n_batches, n_channels, n_pixels), (n_channels * n_pixels, n_pixels, 1)),),
        reference(
            window(conv1, (n_batches, n_channels, n_pixels), (n_channels * n_pixels, n_pixels, 1)),
            window(bn1_mean, (n_channels, 1), (1, 0)),
            window(bn1_rstd, (n_channels, 1), (1, 0)),
            window(weight, (n_channels, 1), (1, 0)),
            window(bias, (n_channels, 1), (1, 0)),
        ),
    )


def reference(conv1, bn1_mean, bn1_rstd, weight, bias):
    """What batch_norm_relu() must fill out with."""
    return torch.relu((conv1 - bn1_mean) * bn1_rstd * weight + bias)
