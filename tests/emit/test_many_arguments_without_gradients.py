"""Arguments in a row that have no gradients are counted, the module beside them is not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from tests.same_gradients import unit_of


class Looked(nn.Module):
    """Seven tables of places, and two results, of which each has weights of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.scale = nn.Embedding(11, 8), nn.Parameter(torch.randn(8))

    def forward(self, *places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.table(torch.stack(places).sum(0) % 11)
        return torch.tanh(found), torch.sin(found.detach()) * self.scale


@pytest.mark.parametrize("number", [0, 1])
def test_gradients_of_weights_behind_many_arguments(number: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, places = Looked(), [torch.randint(11, (4,)) for _ in range(7)]
    longhand.generate(model, tuple(places), out=tmp_path / "unit", train=True)
    unit = unit_of(model, tmp_path / "unit")
    for module in (unit, model):
        module(*places)[number].square().sum().backward()
    for name, weight in model.named_parameters():
        torch.testing.assert_close(unit.get_parameter(name).grad, weight.grad)
