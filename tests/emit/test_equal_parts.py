"""A part of what a chunk takes apart is told by how long the parts are; of what somebody cuts, by where they cut."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Taken(nn.Module):
    """Keys and values of three parts, and a cut that is as long only by chance."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(12, 36)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = torch.sigmoid(q @ k.transpose(-2, -1))
        return scores @ v


class Cut(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(12, 36)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = self.wide(x)
        return wide[..., :12] @ wide[..., 12:24].transpose(-2, -1)


def test_equal_parts_are_told_by_their_length(emit: Any) -> None:
    model = str(emit(Taken().eval(), (torch.randn(2, 5, 12),))["model.py"])
    assert ":24]" not in model and "12:" not in model and " : 2 * " in model


def test_what_is_cut_stays_where_it_is_cut(emit: Any) -> None:
    model = str(emit(Cut().eval(), (torch.randn(2, 5, 12),))["model.py"])
    assert "12:24]" in model
