"""A stride is told by the words of what it steps over, never by those of something else that is as long."""

from __future__ import annotations

import re

import torch
from torch import nn

from benchmarks.readability.units import text_of


class Pooled(nn.Module):
    """The pool's stride is 2, and so is the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.norm = nn.BatchNorm2d(6)
        self.last = nn.Conv2d(6, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(nn.functional.max_pool2d(self.norm(self.conv(x)), 3, 2, 1)))


def test_the_stride_of_a_window_is_not_the_batch() -> None:
    model = text_of((Pooled().eval(), (torch.randn(2, 3, 19, 19),), {}), "cuda", train=False)["model.py"]
    strides = re.findall(r"\w*line_stride=(.*),", model)
    assert strides and not any("batch" in stride for stride in strides)
    assert any(stride.startswith("2 * ") for stride in strides), strides
