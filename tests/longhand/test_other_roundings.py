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
