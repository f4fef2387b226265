"""Stages of a model that differ in nothing but sizes are one function, which reads these where they are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from tests.same_gradients import assert_same_gradients


class Modulation(nn.Module):
    """One projection that is cut into a query, a context and a gate for each of its levels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.f = nn.Conv2d(width, 2 * width + 2, 1)
        self.context = nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False)
        self.h = nn.Conv2d(width, width, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, context, gates = torch.split(self.f(x), [self.width, self.width, 2], 1)
        context = F.gelu(self.context(context))
        return q * self.h(context * gates[:, :1]) * gates[:, 1:]


class Grown(nn.Module):
    """Joins what it was given and what it made."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, growth, 3, padding=1)
        self.second = nn.Conv2d(width + growth, growth, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one = torch.tanh(self.first(x))
        two = torch.tanh(self.second(torch.cat([x, one], 1)))
        return torch.cat([x, one, two], 1)


class Stage(nn.Module):
    def __init__(self, n_in: int, width: int, growth: int) -> None:
        super().__init__()
        self.down = nn.Conv2d(n_in, width, 2, stride=2)
        self.modulation = Modulation(width)
        self.grown = Grown(width, growth)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.grown(self.modulation(self.down(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.Sequential(Stage(3, 12, 10), Stage(32, 20, 14), Stage(48, 28, 18))
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.stages(x).mean((2, 3)))


def _calls(file: Path, word: str) -> dict[str, int]:
    """How often each function of a file whose name has a word is called."""
    tree = ast.parse(file.read_text())
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and word in node.name]
    called = [
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    return {name: called.count(name) for name in functions}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_pieces_begin_where_a_width_says(device: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    out, model = tmp_path / "unit", Net().eval()
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(model, (torch.randn(2, 3, 64, 64),), out=out, device=device, arch=arch)
    for word in ("modulation", "grown"):
        assert len(_calls(out / "model.py", word)) <= 1
    parts = (out / "model.py").read_text().split("\n\n\n")
    functions = [part for part in parts if part.startswith(("def modulation", "def grown"))]
    assert len(functions) == 2
    assert "context_channels : 2 * context_channels]" in functions[0]
    assert "gates_offset=(2 * context_channels + 1) * down_height * down_width" in functions[0]
    assert not {12, 20, 28, 24, 40, 56} & {number for part in functions for number in _numbers(part)}


def _numbers(text: str) -> list[object]:
    return [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]


def test_one_function_of_three_stages_is_right(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(2, 3, 64, 64)
    longhand.generate(model, (x,), out=tmp_path / "unit")
    unit = longhand.load(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(unit(x), model(x))
        torch.testing.assert_close(unit(-x), model(-x))


def test_their_derivatives_are_one_function_too(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x, out = Net(), torch.randn(2, 3, 64, 64), tmp_path / "unit"
    longhand.generate(model, (x.clone().requires_grad_(),), out=out, train=True)
    assert_same_gradients(model, out, x.clone().requires_grad_())
    assert max(_calls(out / "backward.py", "modulation").values(), default=0) > 1


class Pooled(nn.Module):
    """Means of many rows and of few, column by column."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(24, 40, 8, stride=8, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.down(x)
        return torch.tanh(torch.tanh(x).mean((2, 3))), torch.tanh(torch.tanh(y).mean((2, 3)))


def test_columns_of_many_rows_and_of_few_are_one_kernel(tmp_path: Path) -> None:
    model = Pooled().eval().to(memory_format=torch.channels_last)
    x, out = torch.randn(2, 24, 32, 32).to(memory_format=torch.channels_last), tmp_path / "unit"
    longhand.generate(model, (x,), out=out, device="cuda", arch="sm_90")
    kernels = [path for path in (out / "kernels").glob("*.py") if path.stem != "__init__"]
    down = [path.read_text() for path in kernels if "rows at a time" in path.read_text()]
    assert len(down) == 1
    assert "rows = min(ROWS, next_power_of_2(" in down[0] and "ROWS = 256" in down[0]


def test_columns_of_one_height_have_its_tile(tmp_path: Path) -> None:
    class OfMany(Pooled):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(torch.tanh(self.down(x)).mean((2, 3)))

    model = OfMany().eval().to(memory_format=torch.channels_last)
    x, out = torch.randn(2, 24, 32, 32).to(memory_format=torch.channels_last), tmp_path / "unit"
    longhand.generate(model, (x,), out=out, device="cuda", arch="sm_90")
    text = "".join(path.read_text() for path in (out / "kernels").glob("*.py"))
    assert "ROWS = 16" in text and "min(ROWS" not in text
