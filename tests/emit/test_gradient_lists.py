"""The gradients of many layers: told once for all of them, and what they add up to does not divide the layers."""

from __future__ import annotations

import ast
from pathlib import Path

import torch
from torch import nn

import longhand
from tests.same_gradients import assert_same_gradients


class Activated(nn.Module):
    """Linear layers and activations in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[part for _ in range(5) for part in (nn.Linear(8, 8), nn.ReLU())])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def test_a_list_of_linear_layers_and_activations_has_eagers_gradients(tmp_path: Path) -> None:
    model, x = Activated(), torch.randn(3, 8)
    longhand.generate(model, (x,), out=tmp_path / "unit", train=True, run=False)
    assert '**of_layers("layers", d_layers)' in (tmp_path / "unit" / "backward.py").read_text()
    unit = longhand.load(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    unit(x).sum().backward()
    model(x).sum().backward()
    for parameter, other in zip(model.parameters(), unit.parameters(), strict=True):
        torch.testing.assert_close(other.grad, parameter.grad)


class Cross(nn.Module):
    """A layer that reads what all layers read, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.k, self.v, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        return x + self.out(torch.tanh(self.norm(x) * self.k(memory)) * self.v(memory))


class Decoder(nn.Module):
    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.encode = nn.Linear(8, 8)
        self.layers = nn.ModuleList(Cross() for _ in range(n_layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        memory = self.encode(x)
        for layer in self.layers:
            x = layer(x, memory)
        return x


def test_a_sum_over_all_layers_gradients_divides_no_loop(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Decoder(9).train(), torch.randn(2, 5, 8)
    longhand.generate(model, (x,), out=tmp_path / "unit", train=True)
    tree = ast.parse((tmp_path / "unit" / "backward.py").read_text())
    functions = [one.name for one in tree.body if isinstance(one, ast.FunctionDef)]
    assert functions == ["layer_8_backward", "cross_backward", "decoder_backward"]
    loops = [one for one in ast.walk(tree) if isinstance(one, ast.For)]
    assert len(loops) == 1
    assert_same_gradients(model, tmp_path / "unit", x)
