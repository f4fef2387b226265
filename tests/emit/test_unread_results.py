"""A random call whose result nothing reads stays, for the numbers that it draws; its result has no name."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.compiled.from_bytecode import captured


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(5))

    def forward(self, x):
        torch.rand(3)
        for layer in self.layers:
            hidden = layer(x).relu()
            F.dropout(hidden, 0.5, True)
            x = x + hidden
        return x + torch.rand_like(x)


@pytest.mark.parametrize("train", [False, True])
def test_it_is_a_bare_call_in_layers_and_outside(tmp_path, train):
    torch.manual_seed(0)
    model = Layers()
    x = torch.randn(2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        longhand.generate(model, (x,), out=tmp_path / "unit", train=train)
    text = (tmp_path / "unit" / "model.py").read_text()
    lines = [line.strip() for line in text.splitlines()]
    assert any(line.startswith("torch.rand(") for line in lines)
    assert not any(line.startswith(("rand =", "dropped =", "_ =")) for line in lines)


def test_the_numbers_drawn_are_eagers(hook):
    torch.manual_seed(0)
    model, x = Layers(), torch.randn(2, 4)
    found = []
    for run in (model, captured(model, options={"strict": True})):
        torch.manual_seed(1)
        found.append((run(x), torch.rand(3)))
    torch.testing.assert_close(found[1], found[0])
