"""`generate` by default: torch.export, and longhand's own capture where that refuses the call; the lock says which."""

import json

import pytest
import torch
from torch import nn

import longhand
from longhand.errors import CaptureError

pytestmark = pytest.mark.usefixtures("hook")


class OwnSlope(torch.autograd.Function):
    """A derivative of the user's own, which torch.export keeps no graph of."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * 3  # not that of x * x: it is the user's that must be kept


class OwnDerivative(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return OwnSlope.apply(self.linear(x))


def test_what_export_refuses_is_captured_here_by_default(tmp_path):
    model, x = OwnDerivative().train(), torch.randn(3, 4)
    with pytest.raises(CaptureError, match=r"autograd\.Function"):
        longhand.generate(model, (x,), out=tmp_path / "none", train=True, frontend="export")
    assert not (tmp_path / "none").exists()
    out = tmp_path / "unit"
    longhand.generate(model, (x,), out=out, train=True)
    assert json.loads((out / "longhand.lock").read_text())["frontend"] == "bytecode"
    longhand.generate(nn.Linear(4, 4), (x,), out=tmp_path / "plain")
    assert "frontend" not in json.loads((tmp_path / "plain" / "longhand.lock").read_text())


def test_what_neither_captures_is_told_by_the_first(tmp_path):
    def branches(x):
        return x * 2 if x.sum() > 0 else x

    x = torch.ones(3)
    told = []
    for given in ({}, {"frontend": "export"}):
        with pytest.raises(CaptureError) as raised:
            longhand.generate(branches, (x,), out=tmp_path / "o", **given)
        told.append(str(raised.value))
    assert told[0] == told[1] and "branches" in told[0]
    parts = longhand.generate(branches, (x,), out=tmp_path / "parts", allow_breaks=True)
    assert len(parts.breaks) == 1
