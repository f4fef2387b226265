"""What nobody named is called after what it is to the formula that it stands in, not after the last operation of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.readability.units import text_of
from longhand.options import Device


def kernels_of(files: dict[str, Any]) -> str:
    return "\n".join(str(text) for path, text in files.items() if path.startswith("kernels/"))


class Clipped(nn.Module):
    """A root mean square norm between two clamps, whose module's result is read outside of it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_first = Norm()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.clamp(self.norm_first(torch.clamp(x.exp() - 1.5, -2.5, 3.5)), -4.5, 0.5).sin()


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(24))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * self.weight


@pytest.mark.parametrize("device", [Device.CPU, Device.CUDA])
def test_what_is_bounded_is_clamped_and_the_result_of_a_module_has_its_name(
    emit: Any, device: Device
) -> None:
    text = kernels_of(emit(Clipped(), (torch.randn(5, 24),), device=device))
    assert re.search(r"\bclamped = ", text), text
    kernel = text.partition("def reference")[0]
    assert not re.search(r"\b\w*(larger|smaller|product) = ", kernel), text


class Statistics(nn.Module):
    """A function of a model that is called three times in a row, each with what the one before made."""

    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        mean = x.new_zeros(x.shape)
        for new in (x, y, z):
            mean = updated(mean.sin(), new)
        return mean


def updated(mean: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    spread = (mean - new) * (mean - new)
    drift = torch.where(new > 0.5, spread * new, mean * mean)
    return drift / (spread + 1.5)


@pytest.mark.parametrize("device", [Device.CPU, Device.CUDA])
def test_a_step_that_is_run_again_is_the_second_of_its_name(emit: Any, device: Device) -> None:
    text = kernels_of(emit(Statistics(), tuple(torch.randn(3, 5) for _ in range(3)), device=device))
    assert "spread = " in text and "second_spread = " in text and "third_spread = " in text, text
    assert "total = " not in text and "difference = " not in text, text


class Attention(nn.Module):
    """Scores that have no variable, then a quotient, which the caller gets, too."""

    def forward(self, x: torch.Tensor, key: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q, k = x.sin(), key.cos()
        attn = ((q @ k.transpose(-2, -1)) * 0.25).softmax(dim=-1)
        return attn @ k, attn


def test_a_product_that_a_softmax_weighs_is_scores(emit: Any) -> None:
    files = emit(Attention(), (torch.randn(2, 8, 16), torch.randn(2, 8, 16)), device=Device.CUDA)
    assert re.search(r"^ +scores = torch.", str(files["model.py"]), re.M), files["model.py"]
    assert "product" not in str(files["model.py"])


class PostNorm(nn.Module):
    """What is normalized after it was added, and kept for the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other, self.norm = nn.Linear(16, 16), nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.one(x).sin().cos() + self.other(x).tanh().sin()).sum()


def test_a_sum_that_only_a_norm_reads_is_pre_norm() -> None:
    text = text_of((PostNorm(), (torch.randn(6, 16),), {}), "cuda", train=True)["backward.py"]
    assert "d_pre_norm = " in text and "d_total" not in text, text


class Stage(nn.Module):
    """Convolution, norm of the batch and activation, in which stages differ by their sizes alone."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(n_in, n_out, 3, 2, 1, bias=False), nn.BatchNorm2d(n_out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bn(self.conv(x)).relu()


class Stages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = Stage(3, 16), Stage(16, 24), Stage(24, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.third(self.second(self.first(x))).mean()


def test_stages_of_several_sizes_are_one_function_in_training() -> None:
    text = text_of((Stages(), (torch.randn(2, 3, 64, 64),), {}), "cuda", train=True)["model.py"]
    assert not re.search(r"new_empty\(\d+\)|piece_size=\d", text), text
    assert len(re.findall(r"^def \w*stage\(", text, re.M)) == 1, text


class Halves(nn.Module):
    """Images of which half of the channels are of one branch and half of another."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        channels = x.shape[1] * 2
        joined = torch.cat([x.sin(), y.cos()], dim=1)
        return joined.reshape(x.shape[0], channels, x.shape[2], x.shape[3]).exp()


def test_a_second_half_begins_after_the_first_one(emit: Any) -> None:
    shapes = torch.randn(2, 24, 8, 16), torch.randn(2, 24, 8, 16)
    text = str(emit(Halves(), shapes, device=Device.CUDA)["model.py"])
    assert not re.search(r"=-\d{2,}", text), text
