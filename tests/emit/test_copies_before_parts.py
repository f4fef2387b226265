"""A gradient that lies otherwise is copied by whoever calls a derivative: equal modules have one function."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import longhand
from tests.emit.test_records_in_records import Stages
from tests.same_gradients import assert_gradients_as_exact


class Pooled(Stages):
    """The last stage's gradient comes from a pooling, whose layout only the library knows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_max_pool2d(self.last(self.middle(self.shallow(self.stem(x)))), (3, 2))


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ast.FunctionDef]:
    torch.manual_seed(0)
    folder: Path = tmp_path_factory.mktemp("pooled") / "unit"
    model, x = Pooled().train(), torch.randn(2, 3, 32, 32)
    longhand.generate(model, (x,), out=folder, train=True)
    assert_gradients_as_exact(model, folder, x)
    tree = ast.parse((folder / "backward.py").read_text())
    return {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}


def test_all_stages_have_one_derivative(functions: dict[str, ast.FunctionDef]) -> None:
    whole = functions["pooled_backward"]
    called = [ast.unparse(node.func) for node in ast.walk(whole) if isinstance(node, ast.Call)]
    of_stages = [one for one in called if one.endswith("stage_backward")]
    assert len(of_stages) == 3 and len(set(of_stages)) == 1, called
    copying = [name for name, one in functions.items() if ".contiguous()" in ast.unparse(one)]
    assert copying == ["pooled_backward"]
