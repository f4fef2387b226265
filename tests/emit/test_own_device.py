"""A model whose call takes no tensor: its weights are to be where its results are made, on a GPU with a number."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import longhand
from longhand.emit.unit.loading import load_unit


class Scales(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.least = nn.Parameter(torch.randn(8))
        self.greatest = nn.Parameter(torch.randn(8))

    def forward(self) -> torch.Tensor:
        return torch.maximum(self.least.abs(), self.greatest.abs()) / 127 + 1


def made(folder: Path, device: str) -> None:
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(Scales(), (), out=folder, device=device, arch=arch)


def test_a_kind_of_device_is_no_device(tmp_path: Path) -> None:
    """Weights on ``cuda:0`` are never on ``torch.device("cuda")``: the two are not equal."""
    made(tmp_path / "unit", "cuda")
    text = (tmp_path / "unit" / "model.py").read_text()
    assert "check_weights(self, " in text
    assert 'check_weights(self, torch.device("cuda"))' not in text


def test_the_unit_runs(tmp_path: Path) -> None:
    made(tmp_path / "unit", "cpu")
    model, ours = Scales(), load_unit(tmp_path / "unit")()
    ours.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(ours(), model())
