"""Equal blocks of several stages in training: one function each way, and a record for each block between them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from tests.same_gradients import assert_gradients_as_exact, assert_graph_gives_gradients_again


class Block(nn.Module):
    """A residual block; the first of a stage has another width."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False), nn.BatchNorm2d(n_out)
        self.conv2, self.bn2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False), nn.BatchNorm2d(n_out)
        self.shortcut = nn.Conv2d(n_in, n_out, 1, stride, bias=False) if n_in != n_out else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return torch.relu(out + (x if self.shortcut is None else self.shortcut(x)))


class Stages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.layer1 = nn.Sequential(Block(8, 16, 2), Block(16, 16, 1))
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1))
        self.layer3 = nn.Sequential(Block(32, 64, 2), Block(64, 64, 1))
        self.head = nn.Linear(64, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer3(self.layer2(self.layer1(self.stem(x))))
        return self.head(x.mean((2, 3)))


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    folder, model, x = tmp_path_factory.mktemp("stages") / "unit", Stages().train(), torch.randn(2, 3, 32, 32)
    longhand.generate(model, (x,), out=folder, train=True)
    return folder, model, x


Unit = tuple[Path, nn.Module, torch.Tensor]


def _functions(path: Path) -> dict[str, ast.FunctionDef]:
    return {one.name: one for one in ast.parse(path.read_text()).body if isinstance(one, ast.FunctionDef)}


def _launch(folder: Path) -> ast.FunctionDef:
    tree = ast.parse((folder / "model.py").read_text())
    return next(one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name == "launch")


def _called(function: ast.FunctionDef) -> list[str]:
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    return [ast.unparse(call.func) for call in calls]


def test_the_gradients_are_the_models(unit: Unit) -> None:
    folder, model, x = unit
    assert_gradients_as_exact(model, folder, x)


def test_blocks_of_all_stages_are_one_function_that_makes_a_record(unit: Unit) -> None:
    folder, _, _ = unit
    launch, functions = _launch(folder), _functions(folder / "model.py")
    of_blocks = [name for name in _called(launch) if name.startswith("block")]
    assert len(of_blocks) >= 5 and len(set(of_blocks)) < len(of_blocks)
    for name in set(of_blocks):
        returned = functions[name].body[-1]
        assert isinstance(returned, ast.Return) and isinstance(returned.value, ast.Tuple)
        *handed_on, record = returned.value.elts
        assert len(handed_on) <= 4 and ast.unparse(record).partition("(")[0].endswith("Saved")
    assert _called(launch).count("F.conv2d") <= 3  # the stem's, and of the last block, which ends in the mean


def test_the_derivative_of_a_block_is_given_its_record_alone(unit: Unit) -> None:
    folder, _, _ = unit
    text = (folder / "backward.py").read_text()
    calls = [
        (ast.unparse(node.func), [ast.unparse(one) for one in node.args])
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("_backward")
    ]
    given = {name: [] for name, _ in calls}
    for name, args in calls:
        given[name] += [one for one in args if one.startswith("saved.layer") and one.count(".") == 1]
    shared = {name: args for name, args in given.items() if len(args) > 1}
    assert shared, text
    assert "layer2_0: " in text and "saved.layer2_0" in {one for args in shared.values() for one in args}


def test_what_is_kept_goes_by_one_name_for_all_blocks(unit: Unit) -> None:
    folder, _, _ = unit
    records = [
        [ast.unparse(one.target) for one in node.body if isinstance(one, ast.AnnAssign)]
        for node in ast.parse((folder / "backward.py").read_text()).body
        if isinstance(node, ast.ClassDef) and "Block" in node.name
    ]
    assert records
    assert not [field for fields in records for field in fields if field.startswith("layer")]


def test_a_graph_that_is_kept_gives_its_gradients_again(unit: Unit) -> None:
    folder, model, x = unit
    assert_graph_gives_gradients_again(model, folder, x)
