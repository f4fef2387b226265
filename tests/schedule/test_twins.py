"""Kernels that differ in strides, offsets or factors alone are one kernel, which is given them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand


class SlicedAndWhole(nn.Module):
    """A softmax of a slice, and one of a whole tensor by another factor."""

    def __init__(self, second: float) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(64, 192), nn.Linear(64, 64)
        self.second = second

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        part = self.wide(x)[..., :64]
        return torch.softmax(part * 0.5, -1), torch.softmax(self.narrow(x) * self.second, -1)


class TwoSizes(nn.Module):
    """The same of two sizes, but for a number."""

    def __init__(self, second: float, is_factor: bool) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(16, 24), nn.Linear(16, 40)
        self.second, self.is_factor = second, is_factor

    def _of(self, x: torch.Tensor, number: float) -> torch.Tensor:
        return torch.tanh(x * number if self.is_factor else x + number).sum(-1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self._of(self.one(x), 0.3), self._of(self.two(x), self.second)


class ThreeOfOne(nn.Module):
    """q, k and v, copied out of one product."""

    def __init__(self) -> None:
        super().__init__()
        self.fused = nn.Linear(24, 72)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        batch, seq, _ = x.shape
        fused = self.fused(x).view(batch, seq, 4, 3, 6)
        q, k, v = (fused[..., which, :].transpose(1, 2).reshape(batch * 4, seq, 6) for which in range(3))
        return q, k, v


def _unit(model: nn.Module, x: torch.Tensor, out: Path) -> list[str]:
    """Generates it for the CPU, compares it with eager, and returns the names of its kernels."""
    longhand.generate(model, (x,), out=out)
    unit = longhand.load(out)()
    unit.load_state_dict(model.state_dict())
    with torch.no_grad():
        for mine, theirs in zip(unit(x), model(x), strict=True):
            torch.testing.assert_close(mine, theirs)
    return sorted(path.stem for path in (out / "kernels").glob("*.cpp"))


def _model_text(out: Path) -> str:
    return " ".join((out / "model.py").read_text().split())


@pytest.mark.parametrize("second", [0.5, 0.25])
def test_a_slice_and_a_whole_tensor_are_one_kernel(second: float, tmp_path: Path) -> None:
    torch.manual_seed(0)
    out = tmp_path / "unit"
    assert len(_unit(SlicedAndWhole(second).eval(), torch.randn(2, 8, 64), out)) == 1
    text = _model_text(out)
    assert text.count(" x_stride=") == 2
    assert ("scale=0.25" in text) == (second == 0.25)


def test_parts_that_begin_elsewhere_are_copied_by_one_kernel(tmp_path: Path) -> None:
    torch.manual_seed(0)
    out = tmp_path / "unit"
    assert len(_unit(ThreeOfOne().eval(), torch.randn(2, 5, 24), out)) == 1
    assert _model_text(out).count("_offset=") == 3


def test_a_factor_is_an_argument_whatever_the_sizes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, out = torch.randn(5, 16), tmp_path / "unit"
    assert len(_unit(TwoSizes(0.7, is_factor=True).eval(), x, out)) == 1
    text = _model_text(out)
    assert "scale=0.3" in text and "scale=0.7" in text


def test_the_same_factor_stays_where_it_is_read(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, out = torch.randn(5, 16), tmp_path / "unit"
    assert len(_unit(TwoSizes(0.3, is_factor=True).eval(), x, out)) == 1
    assert "scale" not in _model_text(out)


def test_numbers_that_are_no_factors_keep_kernels_apart(tmp_path: Path) -> None:
    """What is added or compared says what a kernel is: of a relu and a clamp nobody makes one."""
    torch.manual_seed(0)
    x = torch.randn(5, 16)
    assert len(_unit(TwoSizes(0.7, is_factor=False).eval(), x, tmp_path / "unit")) == 2


class PartsOfOne(nn.Module):
    """Differences of two columns of one tensor each: the first pair begins where the tensor does."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[:, 2] - x[:, 0], x[:, 3] - x[:, 1]


class SquareOfOne(nn.Module):
    """A part that is multiplied by another one, and one by itself."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[:, 2] * x[:, 0], x[:, 3] * x[:, 3]


def test_several_parts_of_a_tensor_begin_anywhere_in_one_kernel(tmp_path: Path) -> None:
    out = tmp_path / "unit"
    assert len(_unit(PartsOfOne(), torch.randn(6, 4), out)) == 1
    assert _model_text(out).count("_offset=") == 4


def test_a_part_that_is_read_twice_is_another_kernel(tmp_path: Path) -> None:
    assert len(_unit(SquareOfOne(), torch.randn(6, 4), tmp_path / "unit")) == 2
