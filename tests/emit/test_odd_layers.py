"""Lists of layers that are not all alike: each block is made by the class whose methods are called for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from longhand.emit.loading import load_unit


class Layer(nn.Module):
    def __init__(self, hidden: int, act: nn.Module) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, hidden)
        self.down = nn.Linear(hidden, 16)
        self.act = act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.act(self.up(self.norm(x))))


class Stack(nn.Module):
    def __init__(self, layers: list[Layer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def halves() -> list[Layer]:
    return [Layer(32, nn.GELU() if number < 5 else nn.SiLU()) for number in range(10)]


def one() -> list[Layer]:
    return [Layer(32, nn.SiLU() if number == 5 else nn.GELU()) for number in range(10)]


def wider() -> list[Layer]:
    return [Layer(48 if number == 5 else 32, nn.GELU()) for number in range(10)]


@pytest.mark.parametrize(
    ("layers", "n_classes"),
    [(halves, 2), (one, 1), (wider, 1)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_layers_that_differ(layers: Callable[[], list[Layer]], n_classes: int, unit_folder: Any) -> None:
    torch.manual_seed(0)
    model, x = Stack(layers()).eval(), torch.randn(4, 16)
    folder = unit_folder(model, (x,))
    text = (folder / "model.py").read_text()
    assert text.count("for layer in range") == 2
    assert text.count("class Layer") == n_classes
    ours = load_unit(folder)()
    ours.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(ours(x), model(x))
