"""ResNetBlock as kernels for cuda (sm_90), bfloat16, inference.

    x   bfloat16 (batch=64, channels=128, height=56, width=56)
    ->  bfloat16 (batch, 256, 28, 28)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch
from torch import nn

from . import kernels
from .runtime import Weights, buffer, check_mode, check_tensor, check_weights, conv2d, filters

CONV1_HEIGHT = 28
CONV1_WIDTH = 28
CONV1_CHANNELS = 256
CONV2_CHANNELS = 256
EPS = 1e-5


def batch_norm2d_weights():
    """What BatchNorm2d holds."""
    return Weights(
        dtype=torch.bfloat16,
        weight=(256,),
        bias=(256,),
        running_mean=buffer((256,), torch.bfloat16),
        running_var=buffer((256,), torch.bfloat16),
        num_batches_tracked=buffer((), torch.int64),
    )


class ResNetBlock(nn.Module):
    """Takes the state_dict of examples.resnet_block.ResNetBlock."""

    def __init__(self):
        super().__init__()
        self.conv1 = Weights(weight=filters(256, 128, 3, 3, dtype=torch.bfloat16))
        self.bn1 = batch_norm2d_weights()
        self.conv2 = Weights(weight=filters(256, 256, 3, 3, dtype=torch.bfloat16))
        self.bn2 = batch_norm2d_weights()
        self.shortcut = nn.ModuleList(
            [Weights(weight=filters(256, 128, 1, 1, dtype=torch.bfloat16)), batch_norm2d_weights()]
        )
        self.eval()

    def forward(self, x):
        check_mode(self, training=False)
        check_tensor("x", x, dtype=torch.bfloat16, shape=(64, 128, 56, 56), device="cuda")
        check_weights(self, x.device)
        batch, channels, height, width = x.shape

        # ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))
        x_channels_last = torch.empty(
            batch,
            channels,
            height,
            width,
            dtype=torch.bfloat16,
            device=x.device,
            memory_format=torch.channels_last,
        )
        kernels.to_channels_last(
            x, x_channels_last, n_batches=batch, n_pixels=height * width, n_channels=channels
        )
        conv1_out = conv2d(x_channels_last, self.conv1.weight, stride=2, padding=1)
        out = conv1_out  # in place: conv1_out is last read here
        kernels.batch_norm_relu(
            conv1_out,
            self.bn1.running_mean,
            self.bn1.running_var,
            self.bn1.weight,
            self.bn1.bias,
            out,
            n_rows=batch * CONV1_HEIGHT * CONV1_WIDTH,
            n_cols=CONV1_CHANNELS,
            eps=EPS,
        )

        conv2_out = conv2d(out, self.conv2.weight, padding=1)
        del conv1_out, out

        # shortcut
        shortcut_out = conv2d(x_channels_last, self.shortcut[0].weight, stride=2)
        del x_channels_last

        # ResNetBlock.forward    out = self.bn2(self.conv2(out)); out = out + self.shortcut(x)
        # ResNetBlock.forward    return F.relu(out)
        activated = conv2_out.new_empty(batch, CONV2_CHANNELS, CONV1_HEIGHT, CONV1_WIDTH)
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
            n_pixels=CONV1_HEIGHT * CONV1_WIDTH,
            n_channels=CONV2_CHANNELS,
            eps=EPS,
        )
        return activated
