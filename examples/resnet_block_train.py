"""A residual block of ResNet in training: the batch norms normalize by the batch and follow its statistics."""

from __future__ import annotations

import torch
from torch import nn

from examples.resnet_block import ResNetBlock


def small() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Sizes for a CPU."""
    return ResNetBlock(16, 32, stride=2).train(), (torch.randn(4, 16, 28, 28, requires_grad=True),)


def default() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Sizes for a GPU, in bfloat16."""
    model = ResNetBlock(128, 256, stride=2).train().bfloat16()
    return model, (torch.randn(64, 128, 56, 56, dtype=torch.bfloat16, requires_grad=True),)
