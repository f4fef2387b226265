"""What has no float64 is held against eager's own last bits: a right unit passes, a wrong one does not."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from longhand.factory import Call
from longhand.verify.eager_check import compare_with_eager
from longhand.verify.exact_results import exact_results
from longhand.verify.original import in_other_bits
from longhand.verify.training_check import compare_training


class Narrow(nn.Module):
    """Runs in float32 alone, as a grouped matrix product does; `factor` makes it wrong."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(16, 8))
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not torch.float32:
            raise RuntimeError(f"Expected mat_a to be Float32, got {x.dtype}")
        return torch.tanh(x @ self.weight) * self.factor


@pytest.fixture
def call() -> Call:
    torch.manual_seed(1)
    return Call(Narrow(), (torch.randn(6, 16),), {})


@pytest.mark.parametrize("compared", [compare_with_eager, compare_training])
@pytest.mark.parametrize(("factor", "is_right"), [(1.0, True), (1 + 1e-7, True), (1.001, False)])
def test_without_float64_last_bits_decide(call: Call, compared, factor: float, is_right: bool) -> None:
    rows = {row.name: row for row in compared(lambda: Narrow(factor), call)}
    assert rows["result"].is_right is is_right
    assert 0 < rows["result"].eager_error < 1e-4


def test_the_last_bit_is_what_changes(call: Call) -> None:
    other = in_other_bits(call)
    for mine, its in ((call.args[0], other.args[0]), (call.model.weight, other.model.weight)):
        assert not torch.equal(mine, its)
        torch.testing.assert_close(mine, its, rtol=1.5 * torch.finfo(torch.float32).eps, atol=0)
    assert torch.equal(call.model.weight, Narrow().weight)


def test_where_other_bits_choose_other_shapes_eager_is_held_against_itself(call: Call) -> None:
    sizes = iter((2, 3))
    eager = {"result": torch.ones(1)}
    assert exact_results(call, lambda _: {"result": torch.ones(next(sizes))}, eager) is eager


def test_a_missing_result_is_told(call: Call) -> None:
    class Nothing(Narrow):
        def forward(self, x: torch.Tensor) -> None:
            return None

    (row,) = compare_with_eager(Nothing, call)
    assert row.error == math.inf
    assert row.note == "of another form: expected tensor, got None"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.complex64, torch.complex128])
def test_every_type_has_a_last_bit(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    given = torch.randn(64, dtype=dtype)
    (moved,) = in_other_bits(Call(torch.sin, (given,), {})).args
    assert not torch.equal(moved, given)
    torch.testing.assert_close(moved, given, rtol=1.5 * torch.finfo(dtype).eps, atol=0)


def test_a_bit_may_be_that_of_a_coarser_type() -> None:
    given = torch.rand(1000) + 1
    (moved,) = in_other_bits(Call(torch.sin, (given,), {}), least=2.0**-10).args
    steps = (moved / given - 1).abs()
    assert set((steps * 2.0**10).round().tolist()) == {0.0, 1.0}
