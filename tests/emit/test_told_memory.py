"""Why a line may write over memory, and where a kernel reads what data say, stands beside it."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import nn


class Gathered(nn.Module):
    """Rows of a table of sums, which an order says, of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.up(x))
        return torch.sin(self.down(hidden)[order])


def test_memory_is_written_over_for_a_reason(emit: Any) -> None:
    model = str(emit(Gathered().eval(), (torch.randn(30, 8), torch.randperm(30)))["model.py"])
    taken = re.findall(r"(\w+) = (\w+)  # in place(.*)", model)
    assert taken and all(why == f": {old} is last read here" for _, old, why in taken)


def test_what_data_say_is_told_by_their_name(emit: Any) -> None:
    files = emit(Gathered().eval(), (torch.randn(30, 8), torch.randperm(30)))
    kernels = [str(text) for path, text in files.items() if path.startswith("kernels/")]
    assert not any("at computed places" in text for text in kernels)
    assert any("(table_size, n_cols)" in text or "where order says" in text for text in kernels)
