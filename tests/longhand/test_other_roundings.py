"""Eager with every rounding drawn anew, where its own result of equal values is exact by chance."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from longhand.verify.roundings import OtherRoundings

X = torch.full((4, 7), 1.3)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.linspace(-1, 1, 13)[6:7],
        lambda x: x.std(1),
        lambda x: x.var(0),
        lambda x: F.layer_norm(x, (7,)),
        lambda x: x[:, :1] - x[:, 1:],
    ],
)
def test_what_differences_of_equal_values_give_is_luck(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    assert function(X).abs().max() < 1e-6
    with OtherRoundings(1):
        moved = function(X * 1.0)
    assert 0 < moved.abs().max() < 1e-3


@pytest.mark.parametrize(
    "function", [lambda x: x.amax(1), lambda x: x.flip(0), lambda x: torch.where(x > 0, x, -x)]
)
def test_what_is_among_what_was_given_is_not_moved(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with OtherRoundings(1):
        assert torch.equal(function(X), function(X.clone()))


def test_what_is_nothing_but_rounding_may_be_zero() -> None:
    """Infinity times the middle of a linspace is infinity in eager, and NaN where the middle is zero."""

    def middle(seed: int) -> float:
        with OtherRoundings(seed):
            return float(torch.linspace(-1, 1, 13)[6])

    drawn = {middle(seed) for seed in range(16)}
    assert 0.0 in drawn and len(drawn) > 2 and max(map(abs, drawn)) < 1e-6
    with OtherRoundings(1):
        assert torch.linspace(1, 2, 13).min() > 0.9


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_deviation_may_be_the_root_of_a_variance_of_its_type(dtype: torch.dtype) -> None:
    """Of 1e30s in float32 eager's is finite on a CPU, which sums in float64, and infinite on an H200."""
    x = torch.tensor([1e30, 0.0, 1e30], dtype=dtype)
    assert x.std().isfinite()
    with OtherRoundings(1):
        deviation, mean = torch.std_mean(x, 0)
        assert x.std().isinf() == deviation.isinf() == (dtype is torch.float32)
        assert mean.isfinite() and (x * 1e-15).std().isfinite()


def test_both_parts_of_a_complex_number_are_rounded_otherwise() -> None:
    x = torch.complex(torch.rand(5, 9) + 1, torch.rand(5, 9) + 1)
    with OtherRoundings(1):
        moved = x.mH * 1.0
    apart = moved.resolve_conj() - x.mH.resolve_conj()
    assert (apart.real != 0).any() and (apart.imag != 0).any() and apart.abs().max() < 1e-6
