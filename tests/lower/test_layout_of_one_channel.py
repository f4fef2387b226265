"""Filters of one channel that lie channels last are contiguous, too; libraries go by their strides."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.proof.trial import TrialPlace
from longhand.telling.summary import Summary


class OneChannel(nn.Module):
    """A convolution of bfloat16, whose result lies as its filters do on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        filters = torch.randn(8, 3, 1, 3, 1).movedim(-1, 1).bfloat16()
        self.filters = nn.Parameter(filters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv3d(x, self.filters, padding=(1, 0, 1)).sum(2)


def test_what_a_library_lays_out_is_not_taken_for_contiguous(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longhand.api.TrialPlace", TrialPlace)
    x = torch.randn(1, 1, 2, 1, 16).bfloat16()
    summary = longhand.generate(OneChannel(), (x,), out=tmp_path / "unit", device="cuda", arch="sm_90")
    assert isinstance(summary, Summary) and summary.trial.startswith("run once"), summary
