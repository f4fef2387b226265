"""Attention whose weights the backward pass reads is computed again beside its call: the text says so."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from tests.same_gradients import assert_gradients_as_exact


class Attending(nn.Module):
    """Values are wider than keys, which no kernel differentiates; or the user's own softmax."""

    def __init__(self, is_own: bool) -> None:
        super().__init__()
        self.is_own = is_own
        self.qk, self.v, self.proj = nn.Linear(24, 48), nn.Linear(24, 36), nn.Linear(36, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        q, k = (one.view(batch, seq, 3, 8).transpose(1, 2) for one in self.qk(x).chunk(2, -1))
        v = self.v(x).view(batch, seq, 3, 12).transpose(1, 2)
        if self.is_own:
            attended = torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v
        else:
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(attended.transpose(1, 2).reshape(batch, seq, 36))


@pytest.mark.parametrize("is_own", [False, True])
def test_what_is_computed_for_the_backward_pass_alone_is_told(tmp_path: Path, is_own: bool) -> None:
    torch.manual_seed(0)
    model, x = Attending(is_own).train(), torch.randn(2, 5, 24)
    longhand.generate(model, (x,), out=tmp_path / "unit", train=True)
    assert_gradients_as_exact(model, tmp_path / "unit", x)
    lines = (tmp_path / "unit" / "model.py").read_text().splitlines()
    told = [place for place, line in enumerate(lines) if "again, for the backward pass" in line]
    assert len(told) == (0 if is_own else 1)
    assert all("torch.bmm(" in lines[place + 1] for place in told)
