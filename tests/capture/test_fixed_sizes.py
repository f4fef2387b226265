"""A size that was to vary and does not is an error that says what fixed it and what to write."""

import pytest
import torch
from torch import nn

from longhand.errors import CaptureError
from longhand.frontends import capture_call
from longhand.options import Device, Frontend, Options, Target

AUTO = torch.export.Dim.AUTO
DOORS = [Frontend.EXPORT, Frontend.BYTECODE]


def capture(model, args, shapes, frontend, kwargs=None):
    return capture_call(model, args, kwargs or {}, Options(Target(Device.CPU), frontend=frontend), shapes)


def masked(tokens, mask):
    return tokens * mask[:, None]


@pytest.mark.parametrize("frontend", DOORS)
def test_an_argument_of_the_same_size_fixes_it(frontend):
    args = (torch.randn(6, 4), torch.randn(6))
    with pytest.raises(CaptureError) as told:
        capture(masked, args, {"tokens": {0: AUTO}, "mask": None}, frontend)
    assert "tokens in dimension 0 was to vary, and is fixed at 6" in str(told.value)
    assert "mask in dimension 0 has the same size" in str(told.value)
    assert "--dynamic tokens:0 --dynamic mask:0" in str(told.value)
    graph = capture(masked, args, {"tokens": {0: AUTO}, "mask": {0: AUTO}}, frontend)
    assert len(graph.symbols) == 1


@pytest.mark.parametrize("frontend", DOORS)
def test_keywords_are_told_apart_whatever_their_order(frontend):
    kwargs = {"mask": torch.randn(6), "tokens": torch.randn(6, 4)}
    with pytest.raises(CaptureError, match="tokens in dimension 0 was to vary"):
        capture(masked, (), {"tokens": {0: AUTO}, "mask": None}, frontend, kwargs)


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(6, 4))

    def forward(self, x):
        return x + self.table


@pytest.mark.parametrize("frontend", DOORS)
def test_a_table_of_the_model_fixes_it(frontend):
    with pytest.raises(CaptureError, match="table of the model has that size"), torch.no_grad():
        capture(Positions().eval(), (torch.randn(6, 4),), {"x": {0: AUTO}}, frontend)
