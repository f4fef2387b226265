"""ResNetBlock as kernels for cuda (sm_90), bfloat16, training.

    x   bfloat16 (batch=64, channels=128, height=56, width=56)
    ->  bfloat16 (batch, 256, 28, 28)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch
from torch import nn

from . import kernels
from .backward import ResNetBlockFunction, ResNetBlockSaved
from .runtime import (
    Weights,
    buffer,
    buffers_named,
    check_mode,
    check_tensor,
    check_weights,
    conv2d,
    filters,
    parameters_of,
)

CONV1_HEIGHT = 28
CONV1_WIDTH = 28
CONV1_CHANNELS = 256
CONV2_CHANNELS = 256
EPS = 1e-5
MOMENTUM = 0.1


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


def batch_statistics(module, x):
    """kernels.piece_statistics and kernels.batch_statistics by module's own running_mean and running_var."""
    batch, conv1_channels, _, _ = x.shape

    piece_means = torch.empty(conv1_channels, batch, 2, dtype=torch.float32, device=x.device)
    piece_squares = torch.empty_like(piece_means)
    kernels.piece_statistics(
        x, piece_means, piece_squares, n_rows=392, n_lanes=batch * 2, n_channels=conv1_channels
    )
    mean = piece_means.new_empty(conv1_channels)
    rstd = torch.empty_like(mean)
    kernels.batch_statistics(
        piece_means,
        piece_squares,
        mean,
        rstd,
        module.running_mean,
        module.running_var,
        n_rows=conv1_channels,
        n_cols=batch * 2,
        piece_size=392,
        eps=EPS,
        momentum=MOMENTUM,
    )
    return mean, rstd


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
        self.requires_grad_()

    def forward(self, x):
        check_mode(self, training=True)
        check_tensor("x", x.detach(), dtype=torch.bfloat16, shape=(64, 128, 56, 56), device="cuda")
        with torch.no_grad():
            check_weights(self, x.device)
        return ResNetBlockFunction.apply(self, x, *parameters_of(self))[0]

    def launch(self, x):
        """What the model runs, in order: returns the results, then what backward.py reads."""
        batch, channels, height, width = x.shape

        torch._foreach_add_(buffers_named(self, "num_batches_tracked"), 1)

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
        bn1_mean, bn1_rstd = batch_statistics(self.bn1, conv1_out)
        out = torch.empty_like(conv1_out)
        kernels.batch_norm_relu(
            conv1_out,
            bn1_mean,
            bn1_rstd,
            self.bn1.weight,
            self.bn1.bias,
            out,
            n_rows=batch * CONV1_HEIGHT * CONV1_WIDTH,
            n_cols=CONV1_CHANNELS,
        )

        conv2_out = conv2d(out, self.conv2.weight, padding=1)
        bn2_mean, bn2_rstd = batch_statistics(self.bn2, conv2_out)

        # shortcut
        shortcut_out = conv2d(x_channels_last, self.shortcut[0].weight, stride=2)
        del x_channels_last
        shortcut_mean, shortcut_rstd = batch_statistics(self.shortcut[1], shortcut_out)

        # ResNetBlock.forward    out = self.bn2(self.conv2(out)); out = out + self.shortcut(x)
        # ResNetBlock.forward    return F.relu(out)
        activated = conv2_out.new_empty(batch, CONV2_CHANNELS, CONV1_HEIGHT, CONV1_WIDTH)
        kernels.batch_norms_add_relu(
            conv2_out,
            bn2_mean,
            bn2_rstd,
            self.bn2.weight,
            self.bn2.bias,
            shortcut_out,
            shortcut_mean,
            shortcut_rstd,
            self.shortcut[1].weight,
            self.shortcut[1].bias,
            activated,
            n_batches=batch,
            n_pixels=CONV1_HEIGHT * CONV1_WIDTH,
            n_channels=CONV2_CHANNELS,
        )

        saved = ResNetBlockSaved(
            x=x,
            activated=activated,
            conv1_out=conv1_out,
            bn1_mean=bn1_mean,
            bn1_rstd=bn1_rstd,
            out=out,
            conv2_out=conv2_out,
            bn2_mean=bn2_mean,
            bn2_rstd=bn2_rstd,
            shortcut_out=shortcut_out,
            shortcut_mean=shortcut_mean,
            shortcut_rstd=shortcut_rstd,
        )
        return activated, saved
