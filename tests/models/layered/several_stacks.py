"""Several lists of layers in one model, and what passes between them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models.layered.registry import DIM, Example, FeedForward, Stack, layered, sequence


class Hourglass(nn.Module):
    """An encoder whose results a decoder takes in reverse."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.encoder = nn.ModuleList(FeedForward() for _ in range(count))
        self.decoder = nn.ModuleList(FeedForward() for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        seen = []
        for layer in self.encoder:
            x = layer(x)
            seen.append(x)
        for layer in self.decoder:
            x = layer(x + seen.pop())
        return x


@layered(2, 3, 5)
def hourglass(count: int) -> Example:
    return Hourglass(count), sequence()


class Crossing(FeedForward):
    """Which also attends to what an encoder made."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.keys = nn.Linear(DIM, DIM), nn.Linear(DIM, 2 * DIM)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        k, v = self.keys(memory).chunk(2, -1)
        scores = self.query(x) @ k.transpose(-2, -1)
        return super().forward(x + scores.softmax(-1) @ v)


class Translator(nn.Module):
    """An encoder and a decoder that looks at its result in every layer."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.encoder = nn.ModuleList(FeedForward() for _ in range(count))
        self.decoder = nn.ModuleList(Crossing() for _ in range(count))

    def forward(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        for layer in self.encoder:
            source = layer(source)
        for layer in self.decoder:
            target = layer(target, source)
        return target, source


@layered(2, 3, 5)
def translator(count: int) -> Example:
    return Translator(count), (torch.randn(2, 9, DIM), torch.randn(2, 7, DIM))


class Pyramid(nn.Module):
    """Stages of other widths, each with layers."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            nn.ModuleList(FeedForward(DIM * 2**stage) for _ in range(count)) for stage in range(3)
        )
        self.widen = nn.ModuleList(nn.Linear(DIM * 2**stage, DIM * 2 ** (stage + 1)) for stage in range(2))

    def forward(self, x: Tensor) -> list[Tensor]:
        results = []
        for number, stage in enumerate(self.stages):
            for layer in stage:
                x = layer(x)
            results.append(x)
            if number < len(self.widen):
                x = F.avg_pool1d(self.widen[number](x).transpose(1, 2), 2).transpose(1, 2)
        return results


@layered(2, 3)
def pyramid(count: int) -> Example:
    return Pyramid(count), (torch.randn(2, 8, DIM),)


class There(nn.Module):
    """Through the layers and back."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(FeedForward() for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        for layer in reversed(self.layers):
            x = layer(x)
        return x


@layered(2, 5)
def there_and_back(count: int) -> Example:
    return There(count), sequence()


class Collecting(nn.Module):
    """All layers' results, as transformers return them, and the first input again in each layer."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(FeedForward() for _ in range(count))
        self.mix = nn.ParameterList(nn.Parameter(torch.randn(2)) for _ in range(count))

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        first, seen = x, []
        for layer, mix in zip(self.layers, self.mix, strict=True):
            x = layer(mix[0] * x + mix[1] * first)
            seen.append(x)
        return x.mean(1), seen


@layered(2, 3, 5)
def collecting(count: int) -> Example:
    return Collecting(count), sequence()


class Counting(FeedForward):
    """Which keeps a running mean of what it saw."""

    def __init__(self, momentum: float) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("seen", torch.zeros(DIM))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.mul_(1 - self.momentum).add_(x.detach().mean((0, 1)), alpha=self.momentum)
        return super().forward(x - self.seen)


@layered(3, 6)
def running_means(count: int) -> Example:
    return Stack([Counting(0.1 * (number + 1)) for number in range(count)]), sequence()


@layered(6)
def running_means_alike(count: int) -> Example:
    return Stack([Counting(0.1) for _ in range(count)]), sequence()
