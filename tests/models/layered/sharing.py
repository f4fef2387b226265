"""Layers that share weights with others, or are one layer several times."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.models.layered.registry import DIM, Example, FeedForward, Stack, layered, sequence


class Language(nn.Module):
    """Tokens in, tokens out: the table is the last layer's weight, too."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.table, self.stack = nn.Embedding(11, DIM), Stack(layers)
        self.head = nn.Linear(DIM, 11, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.stack(self.table(tokens)))


@layered(2, 3, 5)
def tied_head(count: int) -> Example:
    return Language([FeedForward() for _ in range(count)]), (torch.randint(11, (2, 7)),)


@layered(2, 3, 5, 7)
def tied_weights(count: int) -> Example:
    """Every second layer has the weight of the one before."""
    layers = [FeedForward() for _ in range(count)]
    for number in range(1, count, 2):
        layers[number].up.weight = layers[number - 1].up.weight
    return Stack([*layers]), sequence()


@layered(3, 7)
def weight_of_all(count: int) -> Example:
    layers = [FeedForward() for _ in range(count)]
    for layer in layers[1:]:
        layer.down.weight = layers[0].down.weight
    return Stack([*layers]), sequence()


@layered(3, 6)
def one_module(count: int) -> Example:
    return Stack([FeedForward()] * count), sequence()


@layered(4, 6)
def modules_in_turn(count: int) -> Example:
    one, other = FeedForward(), FeedForward()
    return Stack([one, other] * (count // 2)), sequence()


@layered(3, 5)
def one_norm_for_all(count: int) -> Example:
    layers = [FeedForward() for _ in range(count)]
    for layer in layers:
        layer.norm = layers[0].norm
    return Stack([*layers]), sequence()
