"""ResNetBlock as kernels for cpu, float32, training.

    x   float32 (batch=4, channels=16, height=28, width=28)
    ->  float32 (batch, 32, 14, 14)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch
import torch.nn.functional as F
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
    empty,
    parameters_of,
)


def batch_norm2d_weights():
    """What BatchNorm2d holds."""
    return Weights(
        weight=(32,),
        bias=(32,),
        running_mean=buffer((32,)),
        running_var=buffer((32,)),
        num_batches_tracked=buffer((), torch.int64),
    )


def batch_norm(x, norm):
    """torch.native_batch_norm by norm's own weight, bias, running_mean and running_var.

    Returns x normalized, and of each channel mean and 1 / standard deviation.
    """
    return torch.native_batch_norm(
        x, norm.weight, norm.bias, norm.running_mean, norm.running_var, training=True, momentum=0.1, eps=1e-5
    )


class ResNetBlock(nn.Module):
    """Takes the state_dict of examples.resnet_block.ResNetBlock."""

    def __init__(self):
        super().__init__()
        self.conv1 = Weights(weight=(32, 16, 3, 3))
        self.bn1 = batch_norm2d_weights()
        self.conv2 = Weights(weight=(32, 32, 3, 3))
        self.bn2 = batch_norm2d_weights()
        self.shortcut = nn.ModuleList([Weights(weight=(32, 16, 1, 1)), batch_norm2d_weights()])
        self.requires_grad_()

    def forward(self, x):
        check_mode(self, training=True)
        check_tensor("x", x.detach(), dtype=torch.float32, shape=(4, 16, 28, 28), device="cpu")
        with torch.no_grad():
            check_weights(self, x.device)
        return ResNetBlockFunction.apply(self, x, *parameters_of(self))[0]

    def launch(self, x):
        """What the model runs, in order: returns the results, then what backward.py reads."""

        torch._foreach_add_(buffers_named(self, "num_batches_tracked"), 1)

        # ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))
        conv1_out = F.conv2d(x, self.conv1.weight, stride=2, padding=1)
        normed, bn1_mean, bn1_rstd = batch_norm(conv1_out, self.bn1)
        out = empty(normed.shape, torch.float32)
        kernels.relu(normed, out, n_elements=out.numel())

        conv2_out = F.conv2d(out, self.conv2.weight, padding=1)
        normed, bn2_mean, bn2_rstd = batch_norm(conv2_out, self.bn2)

        # shortcut
        shortcut_out = F.conv2d(x, self.shortcut[0].weight, stride=2)
        shortcut_1, shortcut_mean, shortcut_rstd = batch_norm(shortcut_out, self.shortcut[1])

        # ResNetBlock.forward    out = out + self.shortcut(x); return F.relu(out)
        activated = empty(normed.shape, torch.float32)
        kernels.add_relu(normed, shortcut_1, activated, n_elements=activated.numel())

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
