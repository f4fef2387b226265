"""What a mean's derivative divides by its count, and a sum over all its places multiplies again, is neither."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import longhand


def bias_behind_a_mean(d_mean: torch.Tensor) -> torch.Tensor:
    """The derivative of a bias that was added at nine places before their mean was taken."""
    return (d_mean[:, :, None] / 9).expand(-1, -1, 9).sum(dim=(0, 2))


def of_seven(d_mean: torch.Tensor) -> torch.Tensor:
    return (d_mean[:, :, None] / 9).expand(-1, -1, 7).sum(dim=(0, 2))


def test_it_is_the_sum_of_the_whole(emit: Any) -> None:
    files = emit(bias_behind_a_mean, (torch.randn(5, 12),), device="cuda")
    (kernel,) = (
        str(text) for path, text in files.items() if path.startswith("kernels/") and "__" not in path
    )
    body = kernel.split('"""', 4)[-1].split("\ndef ")[0]
    assert " / " not in body and "scale" not in kernel
    assert "sums, n_rows=n_rows, n_cols=n_cols)" in str(files["model.py"])


def test_another_number_stays(emit: Any) -> None:
    files = emit(of_seven, (torch.randn(5, 12),), device="cuda")
    (kernel,) = (
        str(text) for path, text in files.items() if path.startswith("kernels/") and "__" not in path
    )
    assert " / " in kernel


def by_hand(x: torch.Tensor) -> torch.Tensor:
    """What the user divides, sums and multiplies: too large for float32 as a whole, and finite as shares."""
    return (x / 5000.0).sum(-1) * 5000.0


def by_zero(x: torch.Tensor) -> torch.Tensor:
    return (x / 0.0).sum(-1) * 0.0


def by_infinity(x: torch.Tensor) -> torch.Tensor:
    return (x / float("inf")).sum(-1) * float("inf")


@pytest.mark.parametrize("function", [by_hand, by_zero, by_infinity])
def test_what_the_user_multiplies_stays(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.full((2, 4096), 3e38)
    x[:, 2048:] *= -1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing runs in eager
        found = longhand.compile(function)(x)
    torch.testing.assert_close(found, function(x), rtol=0.0, atol=1e36, equal_nan=True)
