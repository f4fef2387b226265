"""A module of each layer that is a function elsewhere is that function in the layer, too, with what it keeps."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import nn

import longhand
from tests.same_gradients import assert_gradients_as_exact


class Gated(nn.Module):
    """One product makes a query, a context and a gate: kernels begin where one of these does."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.f, self.h, self.proj = nn.Linear(dim, 2 * dim + 1), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, context, gate = torch.split(self.f(self.norm(x)), [self.dim, self.dim, 1], dim=-1)
        mixed = self.h(torch.tanh(context) * torch.sigmoid(gate))
        return self.proj(torch.sigmoid(query) * torch.tanh(mixed))


class Layer(nn.Module):
    """It, after a product."""

    def __init__(self, n_in: int, dim: int) -> None:
        super().__init__()
        self.widen, self.gated = nn.Linear(n_in, dim), Gated(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gated(self.widen(x))


class Layers(nn.Module):
    """Layers of one width between others."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layers, self.last = (
            Layer(16, 24),
            nn.ModuleList(Layer(24, 24) for _ in range(4)),
            Layer(24, 40),
        )
        self.head = nn.Linear(40, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.last(x))


def test_a_layers_method_calls_a_function_that_keeps_a_record(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Layers().train(), torch.randn(3, 5, 16)
    longhand.generate(model, (x,), out=tmp_path / "unit", train=True)
    assert_gradients_as_exact(model, tmp_path / "unit", x)
    text = (tmp_path / "unit" / "model.py").read_text()
    method = text.partition("class Layer(")[2].partition("\nclass ")[0]
    assert re.search(r", saved_gated = \w+\(self\.gated, ", method)
    assert "=saved_gated." in method.partition("LayerSaved(")[2]
