"""Gradients through an operator whose derivative looks at data, in a unit that stands alone."""

import pytest
import torch
from torch import nn

import longhand
from longhand.capture.autograd.eager_derivative import differentiated, gradient_op
from tests.autograd.grouped_operator import grouped

GROUPED = torch.ops.longhand_tests.grouped.default
ENDS = torch.tensor([2, 2, 5])


class Grouped(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3, 8, 4))

    def forward(self, x, ends):
        return grouped(x, self.weight, ends)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("units") / "grouped_unit"
    longhand.generate(
        Grouped(), (torch.rand(5, 8), ENDS), out=out, train=True, frontend="bytecode", run=False
    )
    return out


def test_autograd_finds_its_gradients(folder):
    model, x = Grouped(), torch.rand(5, 8)
    unit = longhand.load(folder)()
    unit.load_state_dict(model.state_dict())
    expected = torch.autograd.grad(model(x, ENDS).square().sum(), model.weight)
    actual = torch.autograd.grad(unit(x, ENDS).square().sum(), unit.weight)
    assert torch.equal(actual[0], expected[0])


def test_the_unit_imports_what_registers_the_operator(folder):
    line = "import tests.autograd.grouped_operator  # noqa: F401"
    assert all(line in (folder / name).read_text() for name in ("model.py", "backward.py"))


def test_an_operator_that_writes_is_not_run_again():
    assert gradient_op(torch.ops.aten.mul_.Tensor, (0,), (0,)) is None
    assert gradient_op(torch.ops.aten.native_dropout.default, (0,), (0,)) is None
    assert differentiated(gradient_op(GROUPED, (0,), (0,))).target is GROUPED
