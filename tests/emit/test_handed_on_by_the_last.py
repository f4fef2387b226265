"""Stages whose last block hands a value of its middle to a head: the others keep it for their derivatives alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from tests.same_gradients import assert_gradients_as_exact

WIDTH = 16


class Block(nn.Module):
    """Returns its value, and a state that a head reads where it is the last block of its stage."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.scale = nn.LayerNorm(width), nn.Parameter(torch.rand(width))
        self.inner, self.gate = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.state, self.back = nn.Linear(2 * width, width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        normed = self.norm(x)
        state = self.state(torch.tanh(self.inner(normed)) * torch.sigmoid(self.gate(normed)))
        return self.back(torch.sin(self.back(state))), state


class Stage(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last, self.down = Block(width), Block(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, _ = self.first(x)
        x, state = self.last(x)
        return self.down(x), state


class Stages(nn.Module):
    """A head for each stage."""

    def __init__(self) -> None:
        super().__init__()
        self.early, self.late = Stage(WIDTH), Stage(WIDTH)
        self.heads = nn.ModuleList(nn.Linear(WIDTH, 3) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, early = self.early(x)
        x, late = self.late(x)
        return self.heads[0](early) * self.heads[1](late) + x.mean(-1, keepdim=True)


Unit = tuple[Path, nn.Module, torch.Tensor]


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> Unit:
    torch.manual_seed(0)
    folder, model, x = tmp_path_factory.mktemp("handed") / "unit", Stages().train(), torch.randn(5, 7, WIDTH)
    longhand.generate(model, (x,), out=folder, train=True)
    return folder, model, x


def test_the_gradients_are_the_models(unit: Unit) -> None:
    folder, model, x = unit
    assert_gradients_as_exact(model, folder, x)


def test_stages_and_blocks_are_calls_that_hand_the_state_back(unit: Unit) -> None:
    folder, _, _ = unit
    tree = ast.parse((folder / "model.py").read_text())
    functions = {one.name: one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}
    (stage,) = {
        name for name in _called(functions["launch"]) if name in functions and name.startswith("stage")
    }
    assert _called(functions["launch"]).count(stage) == 2
    (block,) = {name for name in _called(functions[stage]) if name in functions and "block" in name}
    assert _called(functions[stage]).count(block) == 2
    returned = functions[block].body[-1]
    assert isinstance(returned, ast.Return) and isinstance(returned.value, ast.Tuple)
    state, _, record = returned.value.elts
    assert ast.unparse(state) == "state" and "state=" not in ast.unparse(record)


def _called(function: ast.FunctionDef) -> list[str]:
    return [ast.unparse(one.func) for one in ast.walk(function) if isinstance(one, ast.Call)]
