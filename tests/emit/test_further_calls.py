"""What a statement makes that runs again is called after what it is given, or after the block that ends in it."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import nn

import longhand


class Block(nn.Module):
    """Two norms and one activation, which is called after each and after the sum."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(2))
        self.bn1, self.bn2 = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)
        out = self.conv2(out)
        out = self.bn2(out)
        out = self.relu(out)
        out = out * torch.sigmoid(out.mean((2, 3), keepdim=True)) + x
        out = self.relu(out)
        return out  # noqa: RET504 (one statement that runs three times)


class Net(nn.Module):
    """Two blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = Block(), Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x))


def test_no_ordinal_tells_values_of_one_variable_apart(tmp_path: Path) -> None:
    x = torch.randn(2, 8, 6, 6)
    longhand.generate(Net().train(), (x,), out=tmp_path / "unit", train=True)
    text = (tmp_path / "unit" / "model.py").read_text()
    assert not re.search(r"(second|third)_out", text)
    assert "first_bn2_relu = " in text and "last_bn2_relu = " in text
