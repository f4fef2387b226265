"""What the user wrote once and calls several times has one derivative: a function of backward.py, given a list."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.schedule.names.shared.place_words import without_parts
from longhand.schedule.names.words import GradientWord
from tests.same_gradients import assert_same_gradients


class Branch(nn.Module):
    """Its activation is computed again where its second product is differentiated."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.widen = nn.Linear(width, hidden, bias=False)
        self.narrow = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.narrow(nn.functional.silu(self.widen(x)))


class Branches(nn.Module):
    """Branches of several widths, which nobody has in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = Branch(8, 24), Branch(8, 40), Branch(8, 24)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + torch.tanh(self.first(x))
        x = x * torch.sigmoid(self.second(x))
        return self.head(torch.tanh(self.third(x)))


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return Branches()


@pytest.fixture(scope="module")
def unit(model: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared") / "branches"
    longhand.generate(model, (torch.randn(4, 8),), out=folder, device="cpu", train=True, run=False)
    return folder


def test_derivatives_of_one_class_are_calls_of_one_function(unit: Path) -> None:
    tree = ast.parse((unit / "backward.py").read_text())
    functions = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
    assert list(functions) == ["branch_backward", "branches_backward"]
    calls = [
        node
        for node in ast.walk(functions["branches_backward"])
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "branch_backward"
    ]
    assert [[ast.unparse(one) for one in call.args[1:3]] for call in calls] == [
        [f"model.{branch}.narrow.weight", f"model.{branch}.widen.weight"] for branch in ("third", "second")
    ]
    given = [one.arg for one in functions["branch_backward"].args.args]
    assert given[0] == "d_out" and not any("first" in one or "second" in one for one in given)
    bound = {node.id for node in ast.walk(functions["branch_backward"]) if isinstance(node, ast.Name)}
    assert "d_narrow_weight" in bound and not any("third" in one for one in bound)


def test_each_call_takes_what_its_module_has_kept(model: nn.Module, unit: Path) -> None:
    x = torch.randn(4, 8)
    assert_same_gradients(model, unit, x)
    assert_same_gradients(model, unit, -2 * x)


def test_words_of_a_derivative_say_nowhere_where_its_first_module_is() -> None:
    gradients = (GradientWord("stage_3_conv_bn_mean"), GradientWord("conv"))
    names = ("stage_3_conv_bn_mean", "act3", "stage_3", "stage_3_x", *gradients)
    assert without_parts(names, "stages.3.blocks.0.conv", {"x"}) == {
        "stage_3_conv_bn_mean": "bn_mean",
        "d_stage_3_conv_bn_mean": "d_bn_mean",
        "stage_3_x": "conv_x",  # what is called x inside is another one
    }
