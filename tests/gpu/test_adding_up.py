"""Sums at positions that are data on a GPU: atomic additions of a kernel against eager in float64, and what shows."""

import pytest
import torch

import longhand
from tests.lower.test_adding_up import calls, index_put

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("place", range(14))
def test_as_eager(place: int, dtype: torch.dtype) -> None:
    function, args = list(calls(dtype))[place]
    exact = function(*(arg.double() if arg.is_floating_point() else arg for arg in args))
    given = [arg.cuda() for arg in args]
    found, eager = longhand.compile(function)(*given), function(*given)
    assert found.dtype is eager.dtype and found.shape == eager.shape
    errors = [(one.double().cpu() - exact).abs().max() for one in (found, eager)]
    assert errors[0] <= 2 * errors[1] + 4 * torch.finfo(dtype).eps * exact.abs().max()


def test_a_position_out_of_range_shows_and_writes_nothing_else() -> None:
    compiled = longhand.compile(index_put)
    x, rows = torch.zeros(5, 3, device="cuda"), torch.ones(4, 3, device="cuda")
    compiled(x, torch.tensor([1, 2, -5, 4], device="cuda"), rows)
    found = compiled(x, torch.tensor([1, 5, -5, 4], device="cuda"), rows)
    assert found[0].isnan().all() and not found[1:].isnan().any()


def test_sums_are_recorded_in_a_graph() -> None:
    compiled = longhand.compile(index_put, mode="reduce-overhead")
    for seed in range(4):
        torch.manual_seed(seed)
        args = torch.randn(50, 3).cuda(), torch.randint(-50, 50, (400,)).cuda(), torch.randn(400, 3).cuda()
        torch.testing.assert_close(compiled(*args).clone(), index_put(*args), rtol=1e-4, atol=1e-4)
