"""A list whose first entry is a list that is looped over itself, and whose other entries are one class."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.mixing = nn.LayerNorm(width), nn.Linear(width, width)
        self.middle, self.gate = nn.LayerNorm(width), nn.Linear(width, width)
        self.norm, self.widen, self.narrow = (
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.Linear(2 * width, width),
        )

    def mixed(self, x: torch.Tensor) -> torch.Tensor:
        return self.mixing(self.before(x)).roll(1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.mixed(x)
        x = x + torch.sin(self.gate(self.middle(x)))
        return x + self.narrow(torch.tanh(self.widen(self.norm(x))))


class Across(Block):
    def mixed(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.mixing(self.before(x))
        return normed @ (normed.transpose(1, 2) @ normed).softmax(-1)


class Stages(nn.Module):
    """As DaViT: pairs of blocks, one pair in most stages and three in one; between the stages the width changes."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList()
        self.between = nn.ModuleList()
        width = 8
        for depth in (1, 1, 3, 1):
            self.stages.append(
                nn.Sequential(*(nn.Sequential(Block(width), Across(width)) for _ in range(depth)))
            )
            self.between.append(nn.Linear(width, width + 4))
            width += 4

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage, between in zip(self.stages, self.between, strict=True):
            x = between(stage(x))
        return x


@pytest.mark.parametrize("train", [False, True])
def test_each_list_has_its_class(train: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Stages().train(train), torch.randn(3, 5, 8)
    longhand.generate(model, (x,), out=tmp_path / "unit", train=train)  # tried before it is kept
    unit = longhand.load(tmp_path / "unit")().train(train)
    unit.load_state_dict(model.state_dict())
    torch.testing.assert_close(unit(x), model(x))
