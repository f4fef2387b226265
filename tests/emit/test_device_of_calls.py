"""A unit runs on the GPU on which its first argument lies: what its calls make lies there too, on no GPU by number."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from benchmarks.readability.units import text_of


class Rescaled(nn.Module):
    """Draws a factor, and has a parameter of no elements, of which the gradient has none."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.zeros(1, 0, 8))
        self.proj = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        joined = torch.cat([self.tokens.expand(x.shape[0], -1, -1), self.proj(x)], 1)
        factor = torch.empty(1, device=x.device).uniform_(1.0, 2.0)
        return self.proj(torch.tanh(joined) * factor)


@pytest.mark.parametrize("train", [False, True])
def test_calls_make_tensors_where_the_first_argument_lies(train: bool) -> None:
    example = (Rescaled().train(train), (torch.randn(2, 5, 8),), {})
    files = text_of(example, "cuda", train=train)
    calls = "".join(files.get(path, "") for path in ("model.py", "backward.py"))
    made = [line for line in calls.splitlines() if "device=" in line and "check_tensor(" not in line]
    assert any("torch.empty((1,)" in line and "device=x.device" in line for line in made)
    assert not [line for line in made if "cuda" in line]
    if train:
        assert any("torch.empty((1, 0, 8)" in line for line in made)
