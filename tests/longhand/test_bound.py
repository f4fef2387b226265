"""Binding a unit to a model's weights shares their memory and leaves the model as it was."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import longhand
from longhand.loading import bound


def test_weights_are_shared_and_still_trainable(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)).eval()
    x = torch.randn(3, 8)
    longhand.generate(model, (x,), out=tmp_path / "unit")
    unit = bound(longhand.load(tmp_path / "unit"), model)
    assert all(parameter.requires_grad for parameter in model.parameters())
    with torch.no_grad():
        model[0].weight.mul_(2.0)
        torch.testing.assert_close(unit(x), model(x))
