"""What makes a model of several layers is registered here, with the layers that many of them are made of."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Example = tuple[nn.Module, tuple[Tensor, ...]]
LAYERED: dict[str, Callable[[], Example]] = {}
DIM, HEADS = 16, 2


def layered(*counts: int) -> Callable[[Callable[[int], Example]], Callable[[int], Example]]:
    """Registers what makes a model of so many layers, once for each count."""

    def register(make: Callable[[int], Example]) -> Callable[[int], Example]:
        for count in counts:
            LAYERED[f"{make.__name__}_{count}"] = functools.partial(make, count)
        return make

    return register


class Stack(nn.Module):
    """Layers, one after the other."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class FeedForward(nn.Module):
    """A residual layer of two products."""

    def __init__(self, dim: int = DIM) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def sequence() -> tuple[Tensor, ...]:
    """Two sequences of seven."""
    return (torch.randn(2, 7, DIM),)
