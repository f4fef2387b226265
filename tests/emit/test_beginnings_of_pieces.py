"""Where a piece of a cat begins is told by the words for what is before it, not by a number: ``-half * n_pixels``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.emit.unit.loading import load_unit


class Joined(nn.Module):
    """What comes in beside what a block makes of it, as U-Net has them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(6, 12, 3, padding=1), nn.Conv2d(12, 10, 3, padding=1)
        self.mix = nn.Conv2d(22, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        made = torch.relu(self.second(x))
        return self.mix(torch.tanh(torch.cat((x, made), dim=1)))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_no_number_says_where_a_piece_begins(device: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Joined().eval(), torch.randn(2, 6, 16, 16)
    out = tmp_path / "unit"
    longhand.generate(model, (x,), out=out, device=device, arch="sm_90" if device == "cuda" else None)
    text = (out / "model.py").read_text()
    assert re.search(r"_offset=-\w+", text)
    assert not re.search(r"_offset=-\d", text)
    if device == "cpu":
        unit = load_unit(out)()
        unit.load_state_dict(model.state_dict())
        torch.testing.assert_close(unit(x), model(x))
