"""Kernels of ATen that take contiguous tensors only, which is what the call that people write sees to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from tests.same_gradients import assert_same_gradients


class NormOfSlice(nn.Module):
    """Half of the channels are normalized: a slice, whose elements do not lie one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Conv2d(3, 16, 1)
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.into(x)
        return torch.cat([self.norm(x[:, :8]), x[:, 8:]], dim=1)


class NormOfChannelsLast(NormOfSlice):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.contiguous(memory_format=torch.channels_last))


@pytest.mark.parametrize("make", [NormOfSlice, NormOfChannelsLast])
def test_a_group_norm_of_what_is_not_contiguous_trains(make: Callable[[], nn.Module], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = make(), torch.randn(2, 3, 4, 4)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu", train=True)
    assert_same_gradients(model, tmp_path / "unit", x, rtol=1e-4, atol=1e-4)
