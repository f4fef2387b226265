"""Layers that differ in a number, a tensor that is no parameter, or a buffer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.models.layered.registry import DIM, Example, FeedForward, Stack, layered, sequence


class Scaled(FeedForward):
    """Whose result is multiplied: by a number, or by what `scale` holds."""

    def __init__(self, scale: float | Tensor, persistent: bool | None = None) -> None:
        super().__init__()
        if persistent is not None:
            self.register_buffer("scale", torch.as_tensor(scale), persistent=persistent)
        else:
            self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * self.down(F.gelu(self.up(self.norm(x))))


@layered(2, 3, 5, 7)
def numbers(count: int) -> Example:
    return Stack([Scaled(0.5 + number) for number in range(count)]), sequence()


@layered(3, 7)
def plain_tensors(count: int) -> Example:
    """Tensors that are attributes, neither parameters nor buffers."""
    return Stack([Scaled(torch.full((DIM,), 0.5 + number)) for number in range(count)]), sequence()


@layered(2, 3, 5, 7)
def small_buffers(count: int) -> Example:
    """Values that are written into model.py."""
    scales = [Scaled(torch.full((DIM,), 0.5 + number), persistent=False) for number in range(count)]
    return Stack([*scales]), sequence()


@layered(3, 7)
def buffers_of_one_element(count: int) -> Example:
    return Stack([Scaled(0.5 + number, persistent=False) for number in range(count)]), sequence()


@layered(3, 7)
def kinds_of_buffers(count: int) -> Example:
    """One is a line of torch, the others are stored; their values are far apart."""
    scales = [torch.randn(DIM) if number % 2 else torch.arange(DIM) / 1.0 for number in range(count)]
    return Stack([Scaled(scale, persistent=False) for scale in scales]), sequence()


@layered(3, 5)
def buffers_in_the_state_dict(count: int) -> Example:
    return Stack([Scaled(torch.randn(DIM), persistent=True) for number in range(count)]), sequence()


@layered(5, 6)
def some_buffers_in_the_state_dict(count: int) -> Example:
    """Which the others are not: equal in every other way."""
    scales = [Scaled(torch.randn(DIM), persistent=number % 2 == 0) for number in range(count)]
    return Stack([*scales]), sequence()


class Made(FeedForward):
    """Which makes a tensor of its own number at each call."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * torch.tensor([1.0, 0.5 * self.number])[1] + torch.full(
            (DIM,), self.number
        )


@layered(3, 7)
def made_tensors(count: int) -> Example:
    return Stack([Made(number) for number in range(count)]), sequence()


class Permuted(FeedForward):
    """Which permutes the columns as a buffer says."""

    def __init__(self, order: Tensor, keep: Tensor) -> None:
        super().__init__()
        self.register_buffer("order", order, persistent=False)
        self.register_buffer("keep", keep, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[..., self.order].masked_fill(self.keep, 0.5))


@layered(3, 7)
def permutations(count: int) -> Example:
    layers = [Permuted(torch.randperm(DIM), torch.rand(DIM) > 0.5) for _ in range(count)]
    return Stack([*layers]), sequence()
