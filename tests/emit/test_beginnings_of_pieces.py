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


class Split(nn.Module):
    """Half of the channels is made anew, as in cross-stage partial networks."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.short, self.main = nn.Conv2d(channels, half, 1), nn.Conv2d(channels, half, 1)
        self.norm, self.gate = nn.BatchNorm2d(half), nn.Conv2d(channels, channels, 1)
        self.mix = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        both = torch.cat([self.norm(self.main(x)), torch.relu(self.short(x))], dim=1)
        return self.mix(both * torch.sigmoid(self.gate(both.mean((2, 3), keepdim=True))))


class Pyramid(nn.Module):
    """Three of it, of three widths."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (Split(channels) for channels in (8, 16, 24))
        self.down, self.further_down = nn.Conv2d(8, 16, 3, 2, 1), nn.Conv2d(16, 24, 3, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.third(self.further_down(self.second(self.down(self.first(x)))))


def test_other_widths_are_no_other_function(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Pyramid().eval(), torch.randn(2, 8, 12, 10)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu")
    text = (tmp_path / "unit" / "model.py").read_text()
    # What the module holds tells its widths: nobody needs to pass them.
    assert re.findall(r"^def \w*split\((.*)\)", text, re.MULTILINE) == ["module, x"]
    assert not re.search(r"_offset=-?\d", text)
    unit = load_unit(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    torch.testing.assert_close(unit(x), model(x))


def test_pieces_that_are_held_as_rows(tmp_path: Path) -> None:
    """What a library reads as (seq * batch, dim) still has three dimensions where it is joined: there was no third."""

    def joined(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = torch.stack([x[0].tanh(), x[1].sin()])
        b = torch.stack([x[1].cos(), x[0].exp()])
        return torch.cat([a, b], 2) @ w, a.view(6, 4) @ w[:4], b.view(6, 4) @ w[:4]

    args = (torch.randn(2, 3, 4), torch.randn(8, 2))
    longhand.generate(joined, args, out=tmp_path / "unit", device="cpu", run=False)
    assert (tmp_path / "unit" / "model.py").exists()
