"""Layers of convolutions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models.layered.registry import Example, Stack, layered


class Convolved(nn.Module):
    """A residual convolution with a batch norm."""

    def __init__(self, dilation: int, momentum: float = 0.1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=dilation, dilation=dilation, bias=False)
        self.norm = nn.BatchNorm2d(8, momentum=momentum)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.norm(self.conv(x)))


def picture() -> tuple[Tensor, ...]:
    """Two images of eight channels."""
    return (torch.randn(2, 8, 9, 9),)


@layered(2, 3, 5)
def convolutions(count: int) -> Example:
    return Stack([Convolved(1) for _ in range(count)]), picture()


@layered(3, 6)
def dilations(count: int) -> Example:
    return Stack([Convolved(1 + number % 3) for number in range(count)]), picture()


@layered(3, 6)
def momenta(count: int) -> Example:
    return Stack([Convolved(1, 0.1 * (number + 1)) for number in range(count)]), picture()


class Shuffled(nn.Module):
    """ShuffleNet's unit: half of the channels, joined and shuffled."""

    def __init__(self) -> None:
        super().__init__()
        # As in ShuffleNet without a bias: the norm takes it away, and its gradient would be rounding and nothing else.
        self.conv = nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        kept, other = x.chunk(2, 1)
        joined = torch.cat([kept, F.relu(self.norm(self.conv(other)))], 1)
        batch, channels, height, width = joined.shape
        shuffled = joined.view(batch, 2, channels // 2, height, width).transpose(1, 2)
        return shuffled.reshape(batch, channels, height, width)


@layered(2, 3, 5)
def shuffled_channels(count: int) -> Example:
    return Stack([Shuffled() for _ in range(count)]), picture()


class Densely(nn.Module):
    """Each layer reads all that came before."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(8 + 4 * number, 4, 3, padding=1) for number in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, F.relu(layer(x))], 1)
        return x


@layered(3)
def densely(count: int) -> Example:
    return Densely(count), picture()
