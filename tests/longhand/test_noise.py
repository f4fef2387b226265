"""How far off a result may be where it is a sum of large parts: what its conditions allow, and no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.factory import Call
from longhand.verify.eager_check import compare_whole, compare_within_noise, eager_noise


class Cancelling(nn.Module):
    """Large parts whose sum is small."""

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x[0] * w + x[1] * w) + x[2] * w


class Reordered(nn.Module):
    """The same, summed in another order, and off by a factor."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x[0] * w + (x[1] * w + x[2] * w)) * self.factor


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Call]:
    """A unit that trains, and a call of its original: both the result and w's gradient cancel."""
    torch.manual_seed(0)
    x = torch.randn(3, 64)
    x[0] *= 4096
    x[1] = -x[0]
    call = Call(Cancelling(), (x, torch.ones(64, requires_grad=True)), {})
    folder = tmp_path_factory.mktemp("noise") / "unit"
    longhand.generate(call.model, call.args, out=folder, train=True)
    return folder, call


def wrong(compared: Callable[..., object], unit: tuple[Path, Call], factor: float = 1.0) -> list[str]:
    folder, call = unit
    rows = compared(folder, lambda: Reordered(factor), call)
    return [row.name for row in rows if not row.is_right]  # type: ignore[attr-defined]


def test_another_order_of_large_parts_is_right(unit: tuple[Path, Call]) -> None:
    assert wrong(compare_whole, unit)  # eager happens to be exact: no order but its own would be right
    assert wrong(compare_within_noise, unit) == []


def test_what_is_farther_off_than_the_parts_allow_is_wrong(unit: tuple[Path, Call]) -> None:
    assert wrong(compare_within_noise, unit, 1.01) == ["result", "gradient of argument[1]"]


class Centred(nn.Module):
    """A sum that is nothing: what is left is rounding."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(0, keepdim=True)).sum([0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_number_that_is_rounding_moves(tmp_path: Path, dtype: torch.dtype) -> None:
    """Seeds 300764 and 301921 of the random programs were refused: eager stayed at zero with the first other bits."""
    folder = tmp_path / "unit"
    example = torch.linspace(0.1, 2.3, 7, dtype=dtype)
    longhand.generate(Centred(), (example,), out=folder)
    for seed in range(20):
        x = torch.randn(7, dtype=dtype, generator=torch.Generator().manual_seed(seed))
        least = torch.finfo(dtype).eps / 64
        noise = eager_noise(folder, Call(Centred(), (x,), {}), {"result": least})
        assert least < noise["result"] < 64 * torch.finfo(dtype).eps


class Twice(nn.Module):
    """What is computed twice, less itself: in eager 0, where one of the two is not rounded a unit in the last place."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        one, other = torch.rsqrt(x.abs() + 0.5), torch.rsqrt(x.abs() + 0.5)
        return one, (other - self.factor * one.amax(0, keepdim=True)).amax(0)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_eager_rounds_alike_may_differ_by_a_rounding(tmp_path: Path, device: str) -> None:
    """Seeds 302005 and 302788 of the random programs were refused."""
    torch.manual_seed(0)
    call = Call(Twice(), (torch.randn(7, 13, 1, 4).half(),), {})
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(call.model, call.args, out=tmp_path / "unit", device=device, arch=arch)
    rows = compare_within_noise(tmp_path / "unit", lambda: Twice(1.01), call)
    assert [row.name for row in rows if not row.is_right] == ["result[1]"], "a hundredth is no rounding"
