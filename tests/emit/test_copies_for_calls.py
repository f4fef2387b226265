"""What a library call is given a copy of goes by the user's name for it: ``q`` of an einsum, not ``copied``."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import longhand
from longhand.emit.unit.loading import load_unit


class Mixed(nn.Module):
    """Talking heads: each einsum turns its first operand before it multiplies."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Parameter(torch.randn(4, 4))
        self.after = nn.Parameter(torch.randn(4, 4))

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        dots = torch.einsum("bhij,hg->bgij", scores * 2.0, self.before)
        attn = dots.softmax(-1)
        return torch.einsum("bhij,hg->bgij", attn, self.after)


def test_an_operand_that_is_copied_keeps_its_name(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, scores = Mixed().eval(), torch.randn(2, 4, 5, 5)
    longhand.generate(model, (scores,), out=tmp_path / "unit")
    text = (tmp_path / "unit" / "model.py").read_text()
    assert "torch.bmm(attn, " in text
    unit = load_unit(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    torch.testing.assert_close(unit(scores), model(scores))
