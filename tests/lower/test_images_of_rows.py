"""Rows that a convolution is given as an image: its gradients lie as the image does that the call is given."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.proof.trial import TrialPlace
from longhand.telling.summary import Summary


class RowsAsImages(nn.Module):
    """A norm of rows, each of which is a pixel (MobileViT, with one patch): channels lie last, and no view says so."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.conv = nn.LayerNorm(6), nn.Conv2d(6, 4, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels = x.shape[0] // 4, x.shape[2]
        x = self.norm(x).view(batch, 4, 1, channels).transpose(1, 3)
        x = x.reshape(batch * channels, 1, 2, 2).transpose(1, 2).reshape(batch, channels, 2, 2)
        return self.conv(x).sin()


def test_gradients_are_eagers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial runs the unit for a GPU in Triton's interpreter, and raises where a gradient is wrong."""
    monkeypatch.setattr("longhand.api.TrialPlace", TrialPlace)
    summary = longhand.generate(
        RowsAsImages(),
        (torch.randn(8, 1, 6),),
        out=tmp_path / "unit",
        device="cuda",
        arch="sm_90",
        train=True,
    )
    assert isinstance(summary, Summary) and summary.trial.startswith("run once"), summary
