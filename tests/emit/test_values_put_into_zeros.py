"""Values that ATen puts into zeros are written into the result: no zeros are made to be copied or handed around."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import longhand
from tests.same_gradients import assert_gradients_as_exact


class Sorting(nn.Module):
    """Rows in another order, which data decide, and the best of each."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(12, 4), nn.Linear(12, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        best, places = torch.topk(self.gate(x), 2, dim=-1)
        order = torch.argsort(places[:, 0])
        return x + torch.tanh(self.up(x[order])) * best.sum(dim=-1, keepdim=True)


class Sorted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Sorting() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_each_layer_fills_what_it_writes_into(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Sorted().train(), torch.randn(19, 12)
    longhand.generate(model, (x,), out=tmp_path / "unit", train=True)
    text = (tmp_path / "unit" / "backward.py").read_text()
    assert "_again" not in text and "zeros" not in text
    assert ".index_put_((saved." in text and ", accumulate=True)" in text and ".scatter_(" in text
    assert ".index_put(" not in text and "torch.scatter(" not in text
    assert_gradients_as_exact(model, tmp_path / "unit", x)


class Clamped(nn.Module):
    """Columns that data say, all rows of them: one index is none."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(6, 6)
        self.places = nn.Buffer(torch.tensor([0, 0, 3]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.up(x)[:, self.places])


def test_where_one_index_is_none_the_call_stays_a_public_one(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Clamped().train(), torch.randn(5, 6)
    longhand.generate(model, (x,), out=tmp_path / "unit", train=True)
    assert_gradients_as_exact(model, tmp_path / "unit", x)
