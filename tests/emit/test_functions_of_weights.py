"""What several modules do with their weights alone is a function that takes no tensor: its device is the weights'."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from tests.same_gradients import unit_of


class Table(nn.Module):
    """A table, made of a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 16) * 0.1)

    def forward(self) -> torch.Tensor:
        wide = torch.tanh(self.weight)
        return torch.cumsum(torch.softmax(wide @ wide.T, -1), 0)


class Tables(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = Table(), Table(), Table()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x @ self.first())
        x = torch.sin(x) @ self.second()
        return torch.layer_norm(x @ self.third(), (16,))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_new_tensors_are_made_where_the_weights_are(device: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Tables().eval(), torch.randn(7, 16)
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(model, (x,), out=tmp_path / "unit", device=device, arch=arch)
    text = (tmp_path / "unit" / "model.py").read_text()
    assert "def table(module):" in text
    if device == "cuda":
        assert "device=module.weight.device" in text
    else:
        torch.testing.assert_close(unit_of(model, tmp_path / "unit")(x), model(x))
