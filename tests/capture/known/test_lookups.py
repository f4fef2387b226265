"""Rows of a table at known positions are a slice, and only where its derivative is that of a slice."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.emit.unit.loading import load_unit

TABLE = (10, 4)


class Rows(nn.Module):
    """A table's rows at positions, times what the caller gives."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(TABLE))
        self.way = way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(x.shape[1])
        match self.way:
            case "shifted":
                rows = F.embedding(positions + 2, self.table)
            case "indexed":
                rows = self.table[positions]
            case "of a batch":
                rows = F.embedding(positions[None].expand(x.shape[0], -1), self.table)
            case "with a row of padding":
                rows = F.embedding(positions, self.table, padding_idx=0)
            case "with another row of padding":
                rows = F.embedding(positions, self.table, padding_idx=3)
            case "by frequency":
                rows = F.embedding(positions, self.table, scale_grad_by_freq=True)
            case "in steps":
                rows = self.table[positions * 2]
            case "backwards":
                rows = self.table[x.shape[1] - 1 - positions]
        return x * rows


SLICES = ("shifted", "indexed", "of a batch")
OTHERS = ("with a row of padding", "with another row of padding", "by frequency", "in steps", "backwards")


@pytest.mark.parametrize("way", [*SLICES, *OTHERS])
def test_rows_and_their_gradients_are_eagers(tmp_path: Path, way: str) -> None:
    torch.manual_seed(0)
    model, x = Rows(way), torch.randn(3, 5, 4)
    try:
        longhand.generate(model, (x,), out=tmp_path / "unit", train=True, run=False)
        unit = load_unit(tmp_path / "unit")()
        unit.load_state_dict(model.state_dict())
    except longhand.LonghandError:
        assert way == "by frequency"  # which has no derivative here
        return
    results = []
    for one in (unit, model):
        result = one(x)
        result.square().sum().backward()
        results.append((result, one.table.grad))
    torch.testing.assert_close(*results)
    text = (tmp_path / "unit" / "backward.py").read_text()
    assert way not in SLICES or ("index_add_" not in text and "embedding_dense_backward" not in text)
