"""Objects with a ``__getattr__`` of their own, which may reach members through ``self.__dict__``, or count."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import longhand
from longhand.compiled.backend import GraphReport
from longhand.compiled.from_bytecode import captured


class Mixin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.scale = nn.Parameter(torch.rand(8))
        self.register_buffer("shift", torch.rand(8))

    def __getattr__(self, name: str) -> Any:
        if "config" in self.__dict__ and name in self.__dict__["config"]:
            return self.__dict__["config"][name]
        return super().__getattr__(name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.__dict__["_parameters"]["scale"]
        if "absent" in self.__dict__["_modules"] or "shift" not in self.__dict__["_buffers"]:
            return x
        return self.linear(x).sin() * self.scale + self.shift


def test_members_have_their_own_paths() -> None:
    longhand.reset()
    reports: list[GraphReport] = []
    model, x = Mixin().eval(), torch.randn(4, 8)
    result = captured(model, report=reports.append)(x)
    torch.testing.assert_close(result, model(x))
    (report,) = reports
    assert report.reason is None and report.folder is not None
    text = (report.folder / "model.py").read_text()
    code = [
        line for line in text.splitlines() if not line.lstrip().startswith("#")
    ]  # comments quote the model
    assert not [line for line in code if "__dict__" in line]
    for member in ("self.linear.weight", "self.scale", "self.shift"):
        assert member in text, text


class Counting:
    def __init__(self) -> None:
        self.n_asked = 0

    def __getattr__(self, name: str) -> int:
        self.n_asked += 1
        return self.n_asked


def test_nobody_else_asks_for_attributes() -> None:
    """Capture looks at what an object is without a question to its own code."""

    def function(x: torch.Tensor, counting: Counting) -> torch.Tensor:
        return x * counting.first + counting.second

    compiled = longhand.compile(function)
    ours, eagers = Counting(), Counting()
    for _ in range(3):
        torch.testing.assert_close(compiled(torch.ones(2), ours), function(torch.ones(2), eagers))
        assert ours.n_asked == eagers.n_asked
