"""A long forward() is told in parts, also where the layers of a part are calls already and the part is the rest."""

from __future__ import annotations

import ast
from pathlib import Path

import torch
from torch import nn

import longhand

WIDTH = 8
ACTIVATIONS = (torch.tanh, torch.sigmoid, torch.relu, torch.sin, torch.cos, torch.erf)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Stage(nn.Module):
    """Equal blocks, and layers that no other stage has in that order."""

    def __init__(self, order: tuple[int, ...]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.layers, self.order = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in order), order

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        for layer, which in zip(self.layers, self.order, strict=True):
            x = ACTIVATIONS[which](layer(x))
        return x


class Stages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        orders = (0, 1, 2, 3, 4, 5, 0), (5, 3, 1, 4, 2, 0, 1), (2, 4, 0, 5, 3, 1, 2)
        self.first, self.second, self.third = (Stage(order) for order in orders)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.third(self.second(self.first(x)))


def test_what_is_left_of_a_stage_is_a_function(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Stages().eval(), torch.randn(2, 3, WIDTH)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu")
    tree = ast.parse((tmp_path / "unit" / "model.py").read_text())
    lengths = {
        one.name: one.end_lineno - one.lineno + 1
        for one in ast.walk(tree)
        if isinstance(one, ast.FunctionDef) and one.end_lineno
    }
    assert max(lengths.values()) < 70, lengths
    unit = longhand.load(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    torch.testing.assert_close(unit(x), model(x))
