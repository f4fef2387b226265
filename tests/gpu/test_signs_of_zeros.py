"""The sign of a zero on a GPU, where an angle or a quotient tells it: `-x` of 0.0, and the number -0.0."""

from __future__ import annotations

import pytest
import torch

import longhand

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def angle(x: torch.Tensor) -> torch.Tensor:
    return torch.atan2(-x, -x)


def inverse(x: torch.Tensor) -> torch.Tensor:
    return 1.0 / (-x * 3.0)


def masked(x: torch.Tensor) -> torch.Tensor:
    return torch.atan2(x.masked_fill(x > 0, -0.0), x - 1.0)


@pytest.mark.parametrize("function", [angle, inverse, masked])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_zero_has_eagers_sign(function, dtype) -> None:
    x = torch.tensor([0.0, -0.0, 1.0, -2.0, 0.5, 0.0], dtype=dtype, device="cuda")
    torch.testing.assert_close(longhand.compile(function)(x), function(x))
