"""A residual block of ResNet: convolution, batch norm in eval mode, ReLU, and the sum with the shortcut."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class ResNetBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut; a 1x1 convolution where the shape changes. On (batch, channels, h, w)."""

    def __init__(self, channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out_channels, 1, stride=stride, bias=False),
                nn.BatchNorm2d(out_channels),
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out = out + self.shortcut(x)
        return F.relu(out)


def _trained(model: nn.Module) -> nn.Module:
    """Gives the batch norms statistics that are not the neutral ones, as training would."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None and module.running_var is not None
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.1)
    return model.eval()


def small() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Sizes for a CPU."""
    return _trained(ResNetBlock(32, 64, stride=2)), (torch.randn(4, 32, 56, 56),)


def default() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Sizes for a GPU, in bfloat16."""
    model = _trained(ResNetBlock(128, 256, stride=2)).bfloat16()
    return model, (torch.randn(64, 128, 56, 56, dtype=torch.bfloat16),)
