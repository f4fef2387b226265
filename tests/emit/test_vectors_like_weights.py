"""A weight's gradient without a word for its length is made like the weight, and by no bare number."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from benchmarks.readability.units import text_of


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(4, width), nn.GroupNorm(4, width)
        self.conv = nn.Conv3d(width, width, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.second(self.conv(torch.relu(self.first(x)))))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_norms_gradients_are_made_like_its_weight(device: str) -> None:
    """It was `channel_projections.new_empty(16)`."""
    model = nn.Sequential(nn.Conv3d(3, 16, 3, padding=1, bias=False), Block(16), Block(16))
    given = torch.randn(1, 3, 16, 16, 16)
    text = text_of((model.train(), (given,), {}), device, train=True)["backward.py"]
    assert not re.search(r"new_empty\(16\)|empty\(\(16,\)", text)
    made = r"torch\.empty_like\(\w+\.\S*weight\)" if device == "cuda" else r"empty\(\w+\.\S*weight\.shape,"
    assert re.search(rf"_(weight|bias) = {made}", text), text
