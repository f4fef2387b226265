"""A reduction over the rows writes everything that the kernel is to write, also what depends on no row."""

from __future__ import annotations

import pytest
import torch

import longhand


@pytest.mark.parametrize("shape", [(4, 6), (64, 1000)])
def test_a_copy_beside_a_reduction_over_the_rows(shape: tuple[int, int]) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.stack([y, x]).mean(0) > 0, y.clone()

    x, y = torch.randn(shape), torch.randn(shape)
    for ours, eager in zip(longhand.compile(function)(x, y), function(x, y), strict=True):
        assert torch.equal(ours, eager)
