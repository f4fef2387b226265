"""A list of layers inside a layer of another list: every method that model.py calls is one that its modules have."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import longhand
from longhand.emit.unit.loading import load_unit


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ModuleList(Inner() for _ in range(5))
        self.norm = nn.LayerNorm(16)
        self.mixing = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.inner:
            x = layer(x)
        first, second, third = self.mixing
        mixed = third(torch.tanh(second(torch.relu(first(self.norm(x))))))
        return torch.cumsum(mixed, 1)


class Nested(nn.Module):
    """Before the first outer layer stands a sum: its begin is none of the others', its end is."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.outer = nn.ModuleList(Outer() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 2 + self.first(x)
        for layer in self.outer:
            x = layer(x)
        return x


def test_the_unit_runs(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Nested().eval(), torch.randn(3, 7, 16)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu", run=False)
    ours = load_unit(tmp_path / "unit")()
    ours.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(ours(x), model(x), rtol=1e-4, atol=1e-5)
    assert "self.outer[0].after_" in (tmp_path / "unit" / "model.py").read_text()
