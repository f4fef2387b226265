"""Layers in some of which a tensor or a dropout is missing."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models.layered.registry import DIM, Example, FeedForward, Stack, layered, sequence


class Optional(FeedForward):
    """With or without a scale that is learned, and a bias."""

    def __init__(self, has_scale: bool, has_bias: bool = True) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(DIM)) if has_scale else None
        self.down = nn.Linear(2 * DIM, DIM, bias=has_bias)

    def forward(self, x: Tensor) -> Tensor:
        hidden = super().forward(x)
        return hidden if self.scale is None else hidden * self.scale


@layered(2, 3, 5, 7)
def optional_scale(count: int) -> Example:
    return Stack([Optional(number == 1) for number in range(count)]), sequence()


@layered(5, 7)
def optional_bias(count: int) -> Example:
    return Stack([Optional(True, has_bias=number != 2) for number in range(count)]), sequence()


class Dropped(FeedForward):
    """With dropout."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(p)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dropout(self.down(F.relu(self.up(self.norm(x)))))


@layered(2, 3, 5)
def dropouts(count: int) -> Example:
    return Stack([Dropped(0.1 * number) for number in range(count)]), sequence()


@layered(3, 5)
def one_dropout(count: int) -> Example:
    return Stack([Dropped(0.2) for number in range(count)]), sequence()
