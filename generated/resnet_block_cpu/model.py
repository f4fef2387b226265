"""ResNetBlock as kernels: examples.resnet_block.ResNetBlock for cpu, float32, inference.

    x   float32 (batch=4, channels=32, height=56, width=56)
    ->  float32 (batch, 64, 28, 28)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch
import torch.nn.functional as F
from torch import nn

from . import kernels
from .runtime import Weights, buffer, check_mode, check_tensor, check_weights


def batch_norm2d_weights():
    """What BatchNorm2d holds."""
    return Weights(
        weight=(64,),
        bias=(64,),
        running_mean=buffer((64,)),
        running_var=buffer((64,)),
        num_batches_tracked=buffer((), torch.int64),
    )


class ResNetBlock(nn.Module):
    """Takes the state_dict of examples.resnet_block.ResNetBlock."""

    def __init__(self):
        super().__init__()
        self.conv1 = Weights(weight=(64, 32, 3, 3))
        self.bn1 = batch_norm2d_weights()
        self.conv2 = Weights(weight=(64, 64, 3, 3))
        self.bn2 = batch_norm2d_weights()
        self.shortcut = nn.ModuleList([Weights(weight=(64, 32, 1, 1)), batch_norm2d_weights()])
        self.eval()

    def forward(self, x):
        check_mode(self, training=False)
        check_tensor("x", x, dtype=torch.float32, shape=(4, 32, 56, 56), device="cpu")
        check_weights(self, x.device)
        batch = x.shape[0]
        conv1_channels, conv1_height, conv1_width, conv2_channels = 64, 28, 28, 64

        # ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))
        conv1 = F.conv2d(x, self.conv1.weight, stride=2, padding=1)
        out = conv1  # in place: nothing reads conv1 afterwards
        kernels.batch_norm_relu(
            conv1,
            self.bn1.running_mean,
            self.bn1.running_var,
            self.bn1.weight,
            self.bn1.bias,
            out,
            n_batches=batch,
            n_channels=conv1_channels,
            n_pixels=conv1_height * conv1_width,
            eps=1e-5,
        )

        # ResNetBlock.forward    out = self.bn2(self.conv2(out)); out = out + self.shortcut(x)
        conv2 = F.conv2d(out, self.conv2.weight, padding=1)
        shortcut = F.conv2d(x, self.shortcut[0].weight, stride=2)

        # ResNetBlock.forward    return F.relu(out)
        activated = shortcut  # in place: nothing reads shortcut afterwards
        kernels.batch_norms_add_relu(
            conv2,
            self.bn2.running_mean,
            self.bn2.running_var,
            self.bn2.weight,
            self.bn2.bias,
            shortcut,
            self.shortcut[1].running_mean,
            self.shortcut[1].running_var,
            self.shortcut[1].weight,
            self.shortcut[1].bias,
            activated,
            n_batches=batch,
            n_channels=conv2_channels,
            n_pixels=conv1_height * conv1_width,
            eps=1e-5,
        )
        return activated
