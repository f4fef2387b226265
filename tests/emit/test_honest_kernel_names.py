"""Names of kernels that say what is done: a bias is no padding, a whole number no scale, a FeedForward no feed."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Patches(nn.Module):
    """Overlapping patches: a convolution with a padding, and a bias that kernels add."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.net = Patches(), nn.Conv2d(8, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x)
        return (self.net(x) + x).mean(dim=(2, 3))


class Layer(nn.Module):
    def forward(self, perm: torch.Tensor) -> torch.Tensor:
        return perm // 2


def _kernels(files: Any) -> str:
    return " ".join(path for path in files if path.startswith("kernels/"))


def test_a_bias_is_no_padding_and_a_class_keeps_its_name(emit: Any) -> None:
    names = _kernels(emit(FeedForward().eval(), (torch.randn(2, 3, 16, 16),), device="cuda"))
    assert "pad_" not in names and "/feed_biased" not in names


def test_what_whole_numbers_are_divided_by_is_no_scale(emit: Any) -> None:
    files = emit(Layer().eval(), (torch.randperm(4),), device="cpu")
    assert "scale" not in _kernels(files) and "scaled" not in str(files["model.py"])
