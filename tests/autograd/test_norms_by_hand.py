"""Norms that users write out are differentiated as a person would, on both devices, and as exactly as eager."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand

EPS = 1e-6


class _Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(48, generator=torch.Generator().manual_seed(1)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.norm(torch.cos(x)))  # other work before and after it

    def norm(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class RootMeanSquare(_Norm):
    def norm(self, x):
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + EPS))


class DividedByRoot(_Norm):
    def norm(self, x):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPS) * self.weight


class WithoutMean(_Norm):
    def norm(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = (x - mean).pow(2).mean(-1, keepdim=True)
        return self.weight * ((x - mean) * torch.rsqrt(variance + EPS))


class CenteredOnce(_Norm):
    def norm(self, x):
        centered = x - x.mean(-1, keepdim=True)
        return centered / torch.sqrt(centered.square().mean(-1, keepdim=True) + EPS) * self.weight


class ByVariance(_Norm):
    def norm(self, x):
        spread = x.var(-1, keepdim=True, unbiased=False)
        return (x - x.mean(-1, keepdim=True)) * torch.rsqrt(spread + EPS) * self.weight


class ByLength(_Norm):
    """No mean is taken: the derivative has the same form, and another name."""

    def norm(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x / torch.sqrt((x * x).sum(-1, keepdim=True) + EPS))


class Unbiased(_Norm):
    """The mean square is of one element less than the mean."""

    def norm(self, x: torch.Tensor) -> torch.Tensor:
        centered = x - x.mean(-1, keepdim=True)
        return self.weight * (centered / torch.sqrt((centered * centered).sum(-1, keepdim=True) / 47 + EPS))


NORMS = (RootMeanSquare, DividedByRoot, WithoutMean, CenteredOnce, ByVariance)
OTHERS = (ByLength, Unbiased)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("norm", NORMS)
def test_the_derivative_is_the_closed_form(norm: type[_Norm], device: str, tmp_path: Path) -> None:
    x = torch.randn(6, 48, requires_grad=True)
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(norm(), (x,), out=tmp_path / "unit", device=device, arch=arch, train=True, run=False)
    suffix = "*.cpp" if device == "cpu" else "*.py"
    text = "\n".join(path.read_text() for path in sorted((tmp_path / "unit" / "kernels").glob(suffix)))
    assert "through_rstd" in text
    assert not re.search(r"-0\.5|\b2\.0|rstd \* rstd|n_averaged", text), text


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("norm", "named"), [(ByLength, "l2_normalize"), (Unbiased, "")])
def test_what_is_over_no_mean_is_no_rms_norm(
    norm: type[_Norm], named: str, device: str, tmp_path: Path
) -> None:
    x, arch = torch.randn(6, 48, requires_grad=True), "sm_90" if device == "cuda" else None
    longhand.generate(norm(), (x,), out=tmp_path / "unit", device=device, arch=arch, train=True, run=False)
    kernels = {path.name: path.read_text() for path in (tmp_path / "unit" / "kernels").glob("*.*")}
    assert any("through_length" in text for text in kernels.values())
    assert not any("rms_norm" in name or "rms_norm" in text for name, text in kernels.items())
    assert not named or any(named in name for name in kernels)


@pytest.mark.parametrize("norm", NORMS + OTHERS)
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e-5])
def test_gradients_are_as_exact_as_eagers(norm: type[_Norm], scale: float) -> None:
    class Scaled(norm):  # type: ignore[misc, valid-type]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x)

    torch.manual_seed(0)
    model, x, weighting = Scaled(), scale * torch.randn(64, 48), torch.randn(64, 48)
    exact = _gradients(copy.deepcopy(model).double(), x.double(), weighting.double())
    eager = _gradients(model, x, weighting)
    ours = _gradients(longhand.compile(model), x, weighting)
    for true, theirs, own in zip(exact, eager, ours, strict=True):
        assert (own - true).abs().max() <= 4 * (theirs - true).abs().max() + 1e-7 * true.abs().max()


@pytest.mark.parametrize("norm", NORMS + OTHERS)
def test_special_values_are_eagers(norm: type[_Norm]) -> None:
    class Bare(norm):  # type: ignore[misc, valid-type]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x)

    torch.manual_seed(0)
    x = torch.randn(5, 48)
    x[0] = 0.0
    x[1, 3], x[2, 4], x[3] = float("nan"), float("inf"), 2.0
    model, weighting = Bare(), torch.randn(5, 48)
    eager, ours = _gradients(model, x, weighting), _gradients(longhand.compile(model), x, weighting)
    torch.testing.assert_close(ours[0], eager[0], rtol=1e-4, atol=1e-4, equal_nan=True)
    torch.testing.assert_close(ours[1], eager[1], rtol=1e-4, atol=1e-4, equal_nan=True)


def _gradients(model: nn.Module, x: torch.Tensor, weighting: torch.Tensor) -> list[torch.Tensor]:
    x = x.clone().requires_grad_()
    model.zero_grad()
    model(x).backward(weighting)
    return [x.grad, next(model.parameters()).grad]  # type: ignore[list-item]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_subtracts_a_mean_is_called_no_rms_norm(device: str, tmp_path: Path) -> None:
    x, arch = torch.randn(6, 48), "sm_90" if device == "cuda" else None
    longhand.generate(WithoutMean(), (x,), out=tmp_path / "unit", device=device, arch=arch, run=False)
    names = [path.stem for path in (tmp_path / "unit" / "kernels").glob("*.py")]
    assert any("layer_norm" in name for name in names) and not any("rms" in name for name in names)
