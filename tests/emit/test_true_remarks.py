"""What docstrings say of functions is true of them all: whose they are, what they leave out, what they write over."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import nn

import longhand
from tests.emit.test_layers_apart import Pooled, stack


class First(nn.Module):
    """It holds what Second does, and computes something else."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, 2 * width, 3, padding=1)
        self.norm = nn.BatchNorm1d(2 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.norm(self.conv(x)))


class Second(First):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(torch.sin(self.conv(x)))


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = First(3), Second(6), Second(12), Second(24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.d(self.c(self.b(self.a(x))))


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Plain(nn.Module):
    """Its backward pass reads its record, and drops nothing of it."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.tanh(self.up(x)))


def written(model: nn.Module, given: torch.Tensor, folder: Path) -> str:
    longhand.generate(model.train(), (given,), out=folder, train=True, run=False)
    return (folder / "backward.py").read_text()


def test_a_layer_without_its_ends_tells_what_it_does(tmp_path: Path) -> None:
    _, tokens = stack()
    longhand.generate(
        Pooled(2).eval(), (tokens,), out=tmp_path / "unit", device="cuda", arch="sm_90", run=False
    )
    (said,) = re.findall(r"The layer's ([\w, .]+); the caller", (tmp_path / "unit" / "model.py").read_text())
    assert "up" in said and "down" in said and "norm" not in said


def test_what_is_written_over_is_said(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(Residual(16) for _ in range(5)))
    text = written(model, torch.randn(3, 16), tmp_path / "unit")
    for name, parameters, remark, body in re.findall(
        r'def (\w+_backward)\(([\w, ]+)\):\n    """(.*?)"""\n(.*?)\n\n\n', text, re.DOTALL
    ):
        over = {word for word in parameters.split(", ") if re.search(rf" = {word}  # in place", body)}
        said = re.search(r"Overwrites ([\w, ]+)\.", remark)
        assert over <= set(re.findall(r"\w+", said[1] if said else "")), name
    assert re.search(r"Overwrites d_\w+\.", text)


def test_a_record_is_said_to_be_dropped_only_where_it_is(tmp_path: Path) -> None:
    model, tokens = stack()
    text = written(model, tokens, tmp_path / "layers")
    assert "Drops parts of `saved` once they are read." in text
    assert "saved.layers.pop()" in text and not re.search(r"del .*saved\.tokens", text)
    text = written(Plain(), torch.randn(3, 4), tmp_path / "plain")
    assert "del saved" not in text and ".pop()" not in text
    assert "`saved`" not in text


def test_all_classes_that_hold_such_weights_are_told(tmp_path: Path) -> None:
    longhand.generate(Mixed().eval(), (torch.randn(2, 3, 8),), out=tmp_path / "unit", run=False)
    text = (tmp_path / "unit" / "model.py").read_text()
    assert "def second_weights(" in text
    assert '"""What First and Second hold."""' in text
