"""Stages that join four neighbours: one function, whose slices are quarters of what it is given."""

from __future__ import annotations

import ast
from pathlib import Path

import torch
from torch import nn

import longhand
from tests.same_gradients import assert_gradients_as_exact

_DIM = 24


class Merging(nn.Module):
    """Four neighbours become one place of twice as many channels."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * dim)
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x0, x1 = x[..., 0::2, 0::2, :], x[..., 1::2, 0::2, :]
        x2, x3 = x[..., 0::2, 1::2, :], x[..., 1::2, 1::2, :]
        joined = torch.tanh(torch.cat([x0, x1, x2, x3], -1))
        return self.reduction(self.norm(joined))


class Stages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, _DIM)
        self.merge1, self.merge2, self.merge3 = (Merging(_DIM * 2**stage) for stage in range(3))
        self.head = nn.Linear(8 * _DIM, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.merge3(self.merge2(self.merge1(self.embed(x))))))


def test_stages_that_differ_in_widths_are_one_function_backwards(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Stages().train(), torch.randn(2, 16, 24, 8)
    longhand.generate(model, (x,), out=tmp_path / "unit", train=True)
    assert_gradients_as_exact(model, tmp_path / "unit", x)
    text = (tmp_path / "unit" / "backward.py").read_text()
    functions = [one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)]
    texts = {one.name: ast.unparse(one) for one in functions if one.name != "stages_backward"}
    own = [name for name, body in texts.items() if "slice_scatter" in body]
    assert own == ["merging_backward"]
    assert "batch, joined_height, joined_width, joined_channels = joined.shape" in texts[own[0]]
    assert "(batch, joined_height, 2 * joined_width, " in texts[own[0]]  # not batch * joined_width
    merging = next(one for one in functions if one.name == own[0])
    said = (ast.get_docstring(merging) or "").split("From ")[1].split(" to ")[0]
    assert {*said.split(" and ")} <= {one.arg for one in merging.args.args}
