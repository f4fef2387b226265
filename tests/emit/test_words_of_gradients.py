"""In a backward pass: of how many a mean is taken has the axis's word, and no gradient has the word of its value."""

from __future__ import annotations

import re

import torch
from torch import nn

from benchmarks.readability.units import text_of


class Norm(nn.Module):
    """Written by hand, as in every decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(48))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + 1e-6))


class Values(nn.Module):
    """Heads of values, added up over pairs of them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.v_proj = Norm(), nn.Linear(48, 24, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        value = self.v_proj(self.norm(x)).view(batch, seq, 2, 12).transpose(1, 2)
        return value[:, :, None].expand(batch, 2, 2, seq, 12).reshape(batch, 4, seq, 12) * 2.0


def test_words() -> None:
    given = ((torch.randn(2, 19, 48, requires_grad=True),), {})
    text = text_of((Values(), *given), "cuda", train=True)["backward.py"]
    assert re.search(r"n_cols=[a-z]", text)
    assert "n_averaged" not in text and "n_cols=48" not in text
    assert re.search(r"^    d_value = ", text, re.M)
    assert not re.search(r"^    (v_proj|value) = ", text, re.M)
