"""ResNetBlock as kernels for cpu, float32, inference.

    x   float32 (batch=4, channels=32, height=56, width=56)
    ->  float32 (batch, 64, 28, 28)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch
import torch.nn.functional as F
from torch import nn

from . import kernels
from .runtime import Weights, buffer, check_mode, check_tensor, check_weights

CONV1_CHANNELS = 64
CONV1_HEIGHT = 28
CONV1_WIDTH = 28
CONV2_CHANNELS = 64
EPS = 1e-5


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

        conv1_out = F.conv2d(x, self.conv1.weight, stride=2, padding=1)
        out = conv1_out  # in place: conv1_out is last read here
        kernels.batch_norm_relu(
            conv1_out,
            self.bn1.running_mean,
            self.bn1.running_var,
            self.bn1.weight,
            self.bn1.bias,
            out,
            n_batches=batch,
            n_channels=CONV1_CHANNELS,
            n_pixels=CONV1_HEIGHT * CONV1_WIDTH,
            eps=EPS,
        )

        conv2_out = F.conv2d(out, self.conv2.weight, padding=1)

        # shortcut
        shortcut_out = F.conv2d(x, self.shortcut[0].weight, stride=2)

        # ResNetBlock.forward    out = self.bn2(self.conv2(out)); out = out + self.shortcut(x)
        # ResNetBlock.forward    return F.relu(out)
        activated = shortcut_out  # in place: shortcut_out is last read here
        kernels.batch_norms_add_relu(
            conv2_out,
            self.bn2.running_mean,
            self.bn2.running_var,
            self.bn2.weight,
            self.bn2.bias,
            shortcut_out,
            self.shortcut[1].running_mean,
            self.shortcut[1].running_var,
            self.shortcut[1].weight,
            self.shortcut[1].bias,
            activated,
            n_batches=batch,
            n_channels=CONV2_CHANNELS,
            n_pixels=CONV1_HEIGHT * CONV1_WIDTH,
            eps=EPS,
        )
        return activated
