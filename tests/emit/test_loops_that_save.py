"""Calls that are a loop over a list: none where what one of them makes is read later, by the backward pass, say."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from tests.same_gradients import assert_same_gradients, unit_of


class FrozenNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(width) + 0.5), nn.Parameter(torch.randn(width))
        self.register_buffer("mean", torch.randn(width))
        self.register_buffer("var", torch.rand(width) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = (self.weight * (self.var + 1e-5).rsqrt())[:, None, None]
        return x * scale + (self.bias[:, None, None] - self.mean[:, None, None] * scale)


class ConvLayer(nn.Module):
    """Its derivative reads what it made, and so does the next one's."""

    def __init__(
        self, n_in: int, n_out: int, size: int = 1, stride: int = 1, groups: int = 1, is_active: bool = True
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(n_in, n_out, size, stride, size // 2, groups=groups, bias=False)
        self.norm = FrozenNorm(n_out)
        self.activation = nn.ReLU() if is_active else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.activation(self.norm(self.conv(x)))


class Stage(nn.Module):
    def __init__(self, n_in: int, width: int, n_out: int) -> None:
        super().__init__()
        self.down = ConvLayer(n_in, n_in, 3, 2, n_in, is_active=False)
        self.first = nn.Sequential(
            ConvLayer(n_in, width, is_active=False), ConvLayer(width, width, 5, groups=width)
        )
        self.aggregation = nn.Sequential(ConvLayer(n_in + width, n_in), ConvLayer(n_in, n_out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.down(x)
        x = torch.cat([x, self.first(x)], 1)
        return self.aggregation(x)


class Stages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList([Stage(4, 6, 8), Stage(8, 3, 16), Stage(16, 6, 32), Stage(32, 12, 64)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        results = []
        for stage in self.stages:
            x = stage(x)
            results.append(x)
        return torch.cat([one.sum((2, 3)) for one in results[1:]], 1)


@pytest.fixture
def model() -> Stages:
    torch.manual_seed(0)
    return Stages()


def test_what_each_call_made_is_saved(model: Stages, tmp_path: Path) -> None:
    x = torch.randn(2, 4, 64, 64)
    longhand.generate(model.train(), (x,), out=tmp_path / "unit", device="cpu", train=True)
    assert_same_gradients(model, tmp_path / "unit", x, rtol=1e-3, atol=1e-4)


def test_in_inference_they_are_a_loop(model: Stages, tmp_path: Path) -> None:
    x = torch.randn(2, 4, 64, 64)
    longhand.generate(model.eval(), (x,), out=tmp_path / "unit", device="cpu")
    assert "for block in" in (tmp_path / "unit/model.py").read_text()
    torch.testing.assert_close(unit_of(model, tmp_path / "unit")(x), model(x), rtol=1e-4, atol=1e-5)
