"""Batch norm of a batch that holds nothing: eager counts nothing and scales by the first weight; ATen's op raises."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F

import longhand

SHAPES = [(0, 3), (0, 3, 2, 2), (2, 3, 0)]
# Of a tensor of one dimension eager asks for the first weight of none.
CASES = [((0,), False), *((shape, affine) for shape in SHAPES for affine in (True, False))]


@pytest.mark.parametrize(("shape", "affine"), CASES)
@pytest.mark.parametrize("has_statistics", [True, False])
def test_as_eager(shape: tuple[int, ...], affine: bool, has_statistics: bool) -> None:
    n_channels = shape[1] if len(shape) > 1 else 0

    def make() -> list[torch.Tensor]:
        torch.manual_seed(0)
        scales = [torch.randn(n_channels, requires_grad=True) for _ in range(2)]
        return [
            torch.randn(shape, requires_grad=True),
            *scales,
            torch.randn(n_channels),
            torch.rand(n_channels),
        ]

    def normalized(x, weight, bias, mean, var):
        statistics = (mean, var) if has_statistics else (None, None)
        return F.batch_norm(x * 2, *statistics, *((weight, bias) if affine else (None, None)), training=True)

    def step(run) -> list[torch.Tensor]:
        given = make()
        result = run(*given)
        result.sum().backward()
        gradients = [one.grad for one in given[: 3 if affine else 1]]
        return [result.detach(), *gradients, *given[3:]]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = step(longhand.compile(normalized))
    for mine, theirs in zip(found, step(normalized), strict=True):
        assert torch.equal(mine, theirs)
