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
    parameters_of,
)

CONV1_CHANNELS = 256
CONV1_HEIGHT = 28
CONV1_WIDTH = 28
CONV2_CHANNELS = 256
SHORTCUT_CHANNELS = 256
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


class ResNetBlock(nn.Module):
    """Takes the state_dict of examples.resnet_block.ResNetBlock."""

    def __init__(self):
        super().__init__()
        self.conv1 = Weights(dtype=torch.bfloat16, weight=(256, 128, 3, 3))
        self.bn1 = batch_norm2d_weights()
        self.conv2 = Weights(dtype=torch.bfloat16, weight=(256, 256, 3, 3))
        self.bn2 = batch_norm2d_weights()
        self.shortcut = nn.ModuleList(
            [Weights(dtype=torch.bfloat16, weight=(256, 128, 1, 1)), batch_norm2d_weights()]
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
        bn1_piece_means = torch.empty(CONV1_CHANNELS, batch, 2, dtype=torch.float32, device=x.device)
        bn1_piece_squares = torch.empty_like(bn1_piece_means)
        kernels.piece_statistics(
            conv1_out,
            bn1_piece_means,
            bn1_piece_squares,
            n_rows=392,
            n_lanes=batch * 2,
            n_channels=CONV1_CHANNELS,
        )
        bn1_mean = bn1_piece_means.new_empty(CONV1_CHANNELS)
        bn1_rstd = torch.empty_like(bn1_mean)
        kernels.batch_statistics(
            bn1_piece_means,
            bn1_piece_squares,
            bn1_mean,
            bn1_rstd,
            self.bn1.running_mean,
            self.bn1.running_var,
            n_rows=CONV1_CHANNELS,
            n_cols=batch * 2,
            piece_size=392,
            eps=EPS,
            momentum=MOMENTUM,
        )
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

        # ResNetBlock.forward    out = self.bn2(self.conv2(out))
        conv2_out = conv2d(out, self.conv2.weight, padding=1)
        bn2_piece_means = torch.empty(CONV2_CHANNELS, batch, 2, dtype=torch.float32, device=x.device)
        bn2_piece_squares = torch.empty_like(bn2_piece_means)
        kernels.piece_statistics(
            conv2_out,
            bn2_piece_means,
            bn2_piece_squares,
            n_rows=392,
            n_lanes=batch * 2,
            n_channels=CONV2_CHANNELS,
        )
        bn2_mean = bn2_piece_means.new_empty(CONV2_CHANNELS)
        bn2_rstd = torch.empty_like(bn2_mean)
        kernels.batch_statistics(
            bn2_piece_means,
            bn2_piece_squares,
            bn2_mean,
            bn2_rstd,
            self.bn2.running_mean,
            self.bn2.running_var,
            n_rows=CONV2_CHANNELS,
            n_cols=batch * 2,
            piece_size=392,
            eps=EPS,
            momentum=MOMENTUM,
        )

        # shortcut[0] and shortcut[1]: Conv2d, BatchNorm2d
        shortcut_out = conv2d(x_channels_last, self.shortcut[0].weight, stride=2)
        del x_channels_last

        shortcut_piece_means = torch.empty(SHORTCUT_CHANNELS, batch, 2, dtype=torch.float32, device=x.device)
        shortcut_piece_squares = torch.empty_like(shortcut_piece_means)
        kernels.piece_statistics(
            shortcut_out,
            shortcut_piece_means,
            shortcut_piece_squares,
            n_rows=392,
            n_lanes=batch * 2,
            n_channels=SHORTCUT_CHANNELS,
        )
        shortcut_mean = shortcut_piece_means.new_empty(SHORTCUT_CHANNELS)
        shortcut_rstd = torch.empty_like(shortcut_mean)
        kernels.batch_statistics(
            shortcut_piece_means,
            shortcut_piece_squares,
            shortcut_mean,
            shortcut_rstd,
            self.shortcut[1].running_mean,
            self.shortcut[1].running_var,
            n_rows=SHORTCUT_CHANNELS,
            n_cols=batch * 2,
            piece_size=392,
            eps=EPS,
            momentum=MOMENTUM,
        )

        # ResNetBlock.forward    out = self.bn2(self.conv2(out)); out = out + self.shortcut(x)
        # ResNetBlock.forward    return F.relu(out)
        activated = conv2_out.new_empty(batch, CONV2_CHANNELS, CONV1_HEIGHT, CONV1_WIDTH)
        kernels.transpose_batch_norms_add_relu(
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
