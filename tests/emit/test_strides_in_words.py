"""A stride is told by the words of what it steps over, never by those of something else that is as long."""

from __future__ import annotations

import re

import pytest
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


class Sections(nn.Module):
    """Each part of the angles is selected of another of three tables, whose sizes have no words."""

    def forward(self, ids: torch.Tensor, inv_freq: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1]).view(1, 1, -1).expand(3, ids.shape[0], -1)
        angles = (places[..., None].float() * inv_freq).sin()
        return torch.cat([m[i % 3] for i, m in enumerate(angles.split([2, 3, 3], dim=-1))], dim=-1)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_is_selected_begins_so_many_strides_on(device: str) -> None:
    args = torch.randint(9, (2, 19)), torch.randn(8)
    model = text_of((Sections().eval(), args, {}), device, train=False)["model.py"]
    assert re.search(r"_offset=(\w+)\.stride\(0\)", model), model
    assert re.search(r"_offset=2 \* (\w+)\.stride\(0\)", model), model
