"""A model of many lists of layers: a step is looked at for the lists that it is in, not for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.lower.ir import Step
from longhand.schedule.dependencies import Effects, effects
from longhand.schedule.layers import shared_values

N_FEW, N_MANY = 2, 12


class ManyLists(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        for number in range(n):
            layers = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(2)]
            setattr(self, f"stage_{number}", nn.ModuleList(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage in self.children():
            for layer in stage.children():
                x = torch.softmax(layer(x), -1)
        return x


def looks_for_each_list(n: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> float:
    looked: list[Step] = []

    def watched(step: Step) -> Effects:
        looked.append(step)
        return effects(step)

    with monkeypatch.context() as patch:
        patch.setattr(shared_values, "effects", watched)
        longhand.generate(
            ManyLists(n).eval(), (torch.randn(2, 4),), out=path / str(n), device="cpu", run=False
        )
    return len(looked) / n


def test_steps_are_looked_at_as_often_in_a_model_of_many_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (looks_for_each_list(n, tmp_path, monkeypatch) for n in (N_FEW, N_MANY))
    assert many <= 1.5 * few
