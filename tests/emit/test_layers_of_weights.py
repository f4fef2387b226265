"""What layers compute of their weights alone is a function of layers that takes no tensor."""

from __future__ import annotations

import torch
from torch import nn

import longhand


class Biased(nn.Module):
    """A small network makes the bias of attention's scores of a table, as Swin V2's (Liu et al., 2022)."""

    table: torch.Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.cpb = nn.Sequential(nn.Linear(2, dim), nn.ReLU(), nn.Linear(dim, 6))
        self.register_buffer("table", torch.rand(6, 2))

    def forward(self) -> torch.Tensor:
        last = self.cpb[2].bias.clone()
        last[2:4].zero_()
        return nn.functional.linear(self.cpb[:2](self.table), self.cpb[2].weight, last)


class Stack(nn.Module):
    """All biases are made before the first is read."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Biased(8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for bias in [layer() for layer in self.layers]:
            x = torch.softmax(x @ bias, dim=-1)
        return x


def test_their_new_tensors_are_where_the_weights_are(tmp_path):
    x = torch.rand(2, 6, 6, requires_grad=True)
    longhand.generate(Stack().train(), (x,), out=tmp_path / "u", device="cuda", arch="sm_90", train=True)
    model = (tmp_path / "u" / "model.py").read_text()
    assert "def forward(self):" in model
    assert "torch.empty" in model.partition("def forward(self):")[2].partition("class ")[0]
