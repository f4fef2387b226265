"""A training step on CUDA holds its filters channels last, where convolutions alone read them in both passes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from benchmarks.readability.units import text_of
from longhand.verify.verification import verify


class Penalized(nn.Module):
    """Three convolutions: of the second the filters are squared, too; the third reads the second's once more."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 64, 3, bias=False)
        self.second = nn.Conv2d(64, 72, 3, bias=False)
        self.third = nn.Conv2d(72, 72, 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.third(self.second(self.first(x).relu()).relu())
        return y.mean() + (self.second.weight**2).sum()


class Twice(nn.Module):
    """One convolution for two scales, whose gradients are added up by a kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 72, 3, padding=1, bias=False)
        self.head = nn.Conv2d(72, 72, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.stem(x))
        return self.head(x).mean((2, 3)) + self.head(F.avg_pool2d(x, 2)).sigmoid().mean((2, 3))


def penalized() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """What verify makes of this module's name."""
    torch.manual_seed(0)
    return Penalized().train(), (torch.randn(2, 3, 14, 11),)


def twice() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The same for the other."""
    torch.manual_seed(0)
    return Twice().train(), (torch.randn(2, 3, 10, 8),)


def test_filters_that_something_else_reads_are_left() -> None:
    model, args = penalized()
    text = text_of((model, args, {}), "cuda", train=True)["model.py"]
    assert "self.first = Weights(weight=filters(64, 3, 3, 3))" in text
    assert "self.second = Weights(weight=(72, 64, 3, 3))" in text
    assert "self.third = Weights(weight=filters(72, 72, 3, 3))" in text
    assert "filters(" not in text_of((model, args, {}), "cpu", train=True)["model.py"]


@pytest.mark.parametrize("case", ["penalized", "twice"])
def test_gradients_are_eagers_in_any_layout(case: str, tmp_path: Path) -> None:
    model, args = globals()[case]()
    unit = tmp_path / "unit"
    longhand.generate(model, args, out=unit, device="cuda", arch="sm_90", train=True, run=False)
    assert "filters(" in (unit / "model.py").read_text()
    assert verify(unit, f"tests.lower.test_trained_filters:{case}").is_right
