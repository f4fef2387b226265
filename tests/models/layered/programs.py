"""Layers that are checkpointed, parametrized, skipped, chosen, recurrent, or named in odd ways."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from tests.models.layered.attention import Rotary
from tests.models.layered.numbers_and_buffers import Scaled
from tests.models.layered.registry import DIM, Example, FeedForward, Stack, layered, sequence


class Checkpointed(Stack):
    """Layers whose insides are computed again in the backward pass."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
        return x


@layered(2, 3, 5)
def checkpointed(count: int) -> Example:
    return Checkpointed([FeedForward() for _ in range(count)]), sequence()


@layered(2)
def checkpointed_rotary(count: int) -> Example:
    return Checkpointed([Rotary(100.0, fused=True) for _ in range(count)]), sequence()


class Messages(nn.Module):
    """A graph convolution: the sum of what the neighbours send."""

    def __init__(self) -> None:
        super().__init__()
        self.send, self.keep = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        sent = self.send(x)[edges[0]]
        return F.relu(self.keep(x) + torch.zeros_like(x).index_add(0, edges[1], sent))


class Network(nn.Module):
    """Graph convolutions."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Messages() for _ in range(count))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, edges)
        return x


@layered(1, 2, 3, 5)
def graph_network(count: int) -> Example:
    return Network(count), (torch.randn(9, DIM), torch.randint(9, (2, 20)))


def parametrized(how: Callable[[nn.Module], nn.Module], count: int) -> Example:
    layers = [FeedForward() for _ in range(count)]
    for layer in layers:
        how(layer.up)
    return Stack([*layers]), sequence()


@layered(1, 3)
def spectral_norms(count: int) -> Example:
    return parametrized(parametrizations.spectral_norm, count)


@layered(1, 3)
def weight_norms(count: int) -> Example:
    return parametrized(parametrizations.weight_norm, count)


@layered(1, 3)
def orthogonal(count: int) -> Example:
    return parametrized(functools.partial(parametrizations.orthogonal, orthogonal_map="cayley"), count)


class Expert(nn.Module):
    """A layer whose parts are chosen by name."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.parts = nn.ModuleDict({"wide": nn.Linear(DIM, DIM), "deep": nn.Linear(DIM, DIM)})

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tanh(self.parts[self.kind](x))


@layered(4, 6)
def chosen_parts(count: int) -> Example:
    """Half of the parameters are read by no layer."""
    return Stack([Expert(("wide", "deep")[number % 2]) for number in range(count)]), sequence()


@layered(3, 6)
def skipped_layers(count: int) -> Example:
    layers: list[nn.Module] = [FeedForward() for _ in range(count)]
    layers[1] = nn.Identity()
    return Stack(layers), sequence()


class LayersInAGroup(nn.Module):
    """Layers that are attributes with numbers in their names, called by name."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        for number in range(count):
            self.add_module(f"layer{number + 1}", Scaled(0.5 + number))

    def forward(self, x: Tensor) -> Tensor:
        for number in range(self.count):
            x = getattr(self, f"layer{number + 1}")(x)
        return x


@layered(3)
def numbered_names(count: int) -> Example:
    return LayersInAGroup(count), sequence()


class Cell(nn.Module):
    """One step of a recurrence, unrolled."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.cells = nn.ModuleList(nn.GRUCell(DIM, DIM) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        states = [x.new_zeros(x.shape[0], DIM) for _ in self.cells]
        for step in range(3):
            hidden = x[:, step]
            for number, cell in enumerate(self.cells):
                hidden = states[number] = cell(hidden, states[number])
        return torch.stack(states)


@layered(2, 3)
def recurrence(count: int) -> Example:
    return Cell(count), sequence()
