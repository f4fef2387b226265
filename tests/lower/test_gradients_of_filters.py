"""The gradient of a convolution's weight lies as the weight, however the images lie."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from tests.same_gradients import assert_same_gradients


class TwoLengths(nn.Module):
    """One convolution, called for two pictures that stand side by side as rows of channels."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.conv = nn.Conv2d(8, 6, 2, stride=2, groups=groups)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        found = []
        for part, (height, width) in zip(rows.split((16, 32), 1), ((4, 4), (4, 8)), strict=True):
            image = self.norm(part).permute(0, 2, 1).reshape(rows.shape[0], -1, height, width)
            found.append(torch.sin(self.conv(image)).flatten(2))
        return torch.cat(found, 2)


@pytest.mark.parametrize("groups", [1, 2])
def test_the_gradients_of_two_calls_are_added_up_as_they_lie(groups: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, rows = TwoLengths(groups), torch.randn(2, 48, 8)
    longhand.generate(model, (rows,), out=tmp_path / "unit", train=True)
    assert_same_gradients(model, tmp_path / "unit", rows)
