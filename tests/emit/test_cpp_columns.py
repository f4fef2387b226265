"""A reduction over the rows writes everything that the kernel is to write, also what depends on no row."""

from __future__ import annotations

import pytest
import torch

import longhand


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(257, 300), (1000, 77), (5, 61, 257)])
def test_elements_and_their_sums_in_chunks_of_rows(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """What is written for each element is written once, whichever chunk its row is in."""
    dims = tuple(range(len(shape) - 1))

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        product = torch.tanh(x) * y
        return product, product.sum(dims)

    x, y = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
    compiled, tolerance = longhand.compile(function), 2e-2 if dtype is torch.bfloat16 else 1e-5
    for special in (0.0, float("nan"), float("inf")):
        x.view(-1)[7] = special
        product, sums = compiled(x, y)
        exact, exact_sums = function(x.double(), y.double())
        torch.testing.assert_close(product, exact.to(dtype), equal_nan=True)
        torch.testing.assert_close(
            sums.double(), exact_sums, rtol=tolerance, atol=10 * tolerance, equal_nan=True
        )


def test_what_is_added_up_is_read_before_its_memory_is_written() -> None:
    """exp waits in the output's row, which is the memory of dy: dy is read first."""

    def function(
        a: torch.Tensor, w: torch.Tensor, x: torch.Tensor, z: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        dy = a @ w
        exp = torch.exp(x * z)
        return exp / exp.sum(1, keepdim=True), (dy * x * z).sum(0)

    given = torch.randn(300, 32), torch.randn(32, 200), torch.rand(300, 200), torch.rand(300, 200)
    for ours, eager in zip(longhand.compile(function)(*given), function(*given), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(4, 6), (64, 1000)])
def test_a_copy_beside_a_reduction_over_the_rows(shape: tuple[int, int]) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.stack([y, x]).mean(0) > 0, y.clone()

    x, y = torch.randn(shape), torch.randn(shape)
    for ours, eager in zip(longhand.compile(function)(x, y), function(x, y), strict=True):
        assert torch.equal(ours, eager)
