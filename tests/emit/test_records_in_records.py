"""Equal stages that hold equal blocks, in training: one function each way for a stage, whose record has the block's."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from tests.same_gradients import assert_gradients_as_exact, assert_graph_gives_gradients_again


class Conv(nn.Module):
    def __init__(self, n_in: int, n_out: int, size: int = 1, stride: int = 1) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(n_in, n_out, size, stride, size // 2, bias=False)
        self.normalization = nn.BatchNorm2d(n_out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.normalization(self.convolution(x)))


class Block(nn.Module):
    """Four convolutions, and what they make beside what they were given."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.first, self.second = Conv(n_in, n_in, 3), Conv(n_in, n_in, 3)
        self.squeeze, self.widen = Conv(2 * n_in, n_in), Conv(n_in, n_out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.second(self.first(x))
        return self.widen(self.squeeze(torch.cat([x, made], 1)))


class Stage(nn.Module):
    """Two blocks behind a convolution that halves the image."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.halve = Conv(n_in, n_in, 3, 2)
        self.wide, self.deep = Block(n_in, n_out), Block(n_out, n_out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.deep(self.wide(self.halve(x)))


class Stages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, padding=1)
        self.shallow, self.middle, self.last = Stage(12, 20), Stage(20, 36), Stage(36, 68)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.middle(self.shallow(self.stem(x)))).mean((2, 3))


Unit = tuple[Path, nn.Module, torch.Tensor]


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> Unit:
    torch.manual_seed(0)
    folder, model, x = tmp_path_factory.mktemp("stages") / "unit", Stages().train(), torch.randn(2, 3, 32, 32)
    longhand.generate(model, (x,), out=folder, train=True)
    return folder, model, x


def _records(folder: Path) -> dict[str, dict[str, str]]:
    """By class: its fields, and the types of these."""
    tree = ast.parse((folder / "backward.py").read_text())
    return {
        node.name: {
            ast.unparse(one.target): ast.unparse(one.annotation)
            for one in node.body
            if isinstance(one, ast.AnnAssign)
        }
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }


def test_the_gradients_are_the_models(unit: Unit) -> None:
    folder, model, x = unit
    assert_gradients_as_exact(model, folder, x)


def test_a_stage_is_a_function_whose_record_has_those_of_its_blocks(unit: Unit) -> None:
    folder, _, _ = unit
    records = _records(folder)
    inside = {name: [kind for kind in fields.values() if kind in records] for name, fields in records.items()}
    nested = {name: kinds for name, kinds in inside.items() if kinds and name != "StagesSaved"}
    assert nested, records
    text = (folder / "model.py").read_text()
    for name in nested:
        assert len(re.findall(rf"\b{name}\(", text)) == 1  # where the function returns it
        fields = list(records[name])  # which do not say where in the model the first one stands
        assert not [one for one in fields if one.startswith(("shallow", "middle", "last"))], fields


def test_derivatives_read_the_records_in_the_record_of_their_stage(unit: Unit) -> None:
    folder, _, _ = unit
    tree = ast.parse((folder / "backward.py").read_text())
    functions = {one.name: ast.unparse(one) for one in tree.body if isinstance(one, ast.FunctionDef)}
    reading = {name for name, text in functions.items() if "saved.wide." in text and "saved.deep." in text}
    assert reading and not re.search(r"saved\.(shallow|middle)\w*\.(wide|deep)", str(functions)), functions


def test_a_graph_that_is_kept_gives_its_gradients_again(unit: Unit) -> None:
    folder, model, x = unit
    assert_graph_gives_gradients_again(model, folder, x)
