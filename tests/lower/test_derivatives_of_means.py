"""What a mean is taken of is an argument of its derivative's kernel, of many pixels and of four: it is one kernel."""

from __future__ import annotations

import re

import torch
from torch import nn

from benchmarks.readability.units import text_of


class Squeezed(nn.Module):
    """Means over images of two sizes, the smaller of four pixels."""

    def forward(self, large: torch.Tensor, small: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return large.sigmoid().mean((2, 3)), small.sigmoid().mean((2, 3))


def test_few_elements_are_told_like_many() -> None:
    images = tuple(torch.randn(2, 8, size, size, requires_grad=True) for size in (16, 2))
    files = text_of((Squeezed(), images, {}), "cpu", train=True)
    kernels = [path for path in files if re.fullmatch(r"kernels/d_\w+\.cpp", path)]
    assert len(kernels) == 1 and "/ 4.0f" not in files[kernels[0]]
