"""Modules that hold the same but for sizes: model.py says once what they hold, in a function of the sizes."""

from __future__ import annotations

import ast
from pathlib import Path

import torch
from torch import nn

import longhand
from longhand.emit.module.model_weights import write_weight_functions
from longhand.emit.module.module_tree import ModuleTree
from longhand.schedule.modules.held import Branch, WeightFunction
from tests.same_gradients import assert_same_gradients, unit_of


class ConvNorm(nn.Module):
    def __init__(self, n_in: int, n_out: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(n_in, n_out, kernel, padding=kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(n_out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x)))


class Block(nn.Module):
    def __init__(self, n_in: int, width: int) -> None:
        super().__init__()
        self.first = ConvNorm(n_in, width, 1)
        self.second = ConvNorm(width, width, 3)
        self.third = ConvNorm(width, 4 * width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.third(self.second(self.first(x)))


class Net(nn.Module):
    """Stages of other widths, none of them in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNorm(3, 6, 3)
        self.one = Block(6, 8)
        self.two = Block(32, 12)
        self.three = Block(48, 20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.three(self.two(self.one(self.stem(x))))


def _unit(tmp_path: Path, train: bool = False) -> tuple[Net, torch.Tensor, str]:
    torch.manual_seed(0)
    model, x = Net().train(train), torch.randn(2, 3, 8, 8)
    longhand.generate(model, (x,), out=tmp_path / "unit", train=train)
    return model, x, (tmp_path / "unit" / "model.py").read_text()


def test_a_function_makes_them_and_is_given_what_differs(tmp_path: Path) -> None:
    model, x, text = _unit(tmp_path)
    defined = [one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)]
    functions = {one.name: one for one in defined if one.name.endswith("_weights")}
    assert {name: ast.unparse(one.args) for name, one in functions.items()} == {
        "block_weights": "n_in, width",
        "conv_norm_weights": "n_in, n_out, kernel",
    }
    assert "third=conv_norm_weights(width, 4 * width, 1)" in text
    assert "self.two = block_weights(32, 12)" in text
    assert text.count("num_batches_tracked") == 1
    unit = unit_of(model, tmp_path / "unit")
    assert list(unit.state_dict()) == list(model.state_dict())
    torch.testing.assert_close(unit(x), model(x))


def test_what_stands_once_or_in_a_line_has_none(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 6), nn.Linear(6, 5)).eval()
    longhand.generate(model, (torch.randn(3, 4),), out=tmp_path / "unit")
    assert "_weights(" not in (tmp_path / "unit" / "model.py").read_text().replace("check_weights(", "")


def test_a_unit_with_a_backward_pass_has_them_too(tmp_path: Path) -> None:
    model, x, text = _unit(tmp_path, train=True)
    assert "self.three = block_weights(48, 20)" in text
    assert_same_gradients(model, tmp_path / "unit", x, rtol=1e-4, atol=1e-4)


def test_tied_tensors_stay_where_they_are(tmp_path: Path) -> None:
    """A function makes new tensors: what is another's too is no case for it."""
    torch.manual_seed(0)
    model = Net().eval()
    model.two.second.norm.weight = model.two.first.norm.weight
    x = torch.randn(2, 3, 8, 8)
    longhand.generate(model, (x,), out=tmp_path / "unit")
    unit = unit_of(model, tmp_path / "unit")
    assert unit.two.second.norm.weight is unit.two.first.norm.weight
    torch.testing.assert_close(unit(x), model(x))


def test_what_nothing_calls_is_not_written() -> None:
    """Where classes of layers hold what a function was to make, nobody is left to call it."""
    inner, outer = (WeightFunction(f"{name}_weights", name, (), (), Branch()) for name in ("Inner", "Outer"))
    tree = ModuleTree(Branch(), {}, {}, {}, {("outer",): outer, ("inner",): inner})
    assert write_weight_functions(tree, set(), set()) == []
    tree.called.add("Inner_weights")
    assert [one.name for one in write_weight_functions(tree, set(), set())] == ["Inner_weights"]
    tree.called.add("Outer_weights")
    assert [one.name for one in write_weight_functions(tree, set(), set())] == [
        "Inner_weights",
        "Outer_weights",
    ]
