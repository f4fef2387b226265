"""A tensor that is joined with parts of no elements is a copy of itself: no kernel moves it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand


class OfOnePart(nn.Module):
    """As attention with no columns without positions: one of the parts that are joined is empty."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rotated, rest = self.linear(x).split([8, 0], -1)
        return self.linear(torch.cat([rest, rotated], -1))


@pytest.mark.usefixtures("trial_runs")
@pytest.mark.parametrize("train", [False, True])
def test_no_kernel_moves_it(train: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    longhand.generate(OfOnePart(), (torch.randn(3, 8),), out=tmp_path / "unit", device="cpu", train=train)
    text = (tmp_path / "unit" / "model.py").read_text()
    assert "kernels." not in text


def with_empty_cache(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
    return torch.cat([cache, x], 1)


def with_legacy_nothing(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.empty(0), x], 1)


@pytest.mark.parametrize("joined", [with_empty_cache, with_legacy_nothing])
def test_what_the_caller_gets_is_memory_of_its_own(joined) -> None:
    x, cache = torch.randn(2, 3), torch.randn(2, 0)
    compiled = longhand.compile(joined)
    for given in (x, x.t().contiguous().t()):
        result = compiled(given, cache)
        assert torch.equal(result, x) and result.stride() == joined(given, cache).stride()
        result += 1
        assert not torch.equal(result, given)


def with_part_of_cache(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
    return torch.cat([cache[:, :0], x], 1)


@pytest.mark.parametrize("n_cols", [0, 2])
def test_who_is_joined_by_no_element_has_a_gradient(n_cols: int) -> None:
    joined = with_part_of_cache if n_cols else with_empty_cache
    x, cache = torch.randn(2, 3, requires_grad=True), torch.randn(2, n_cols, requires_grad=True)
    longhand.compile(joined)(x, cache).sin().sum().backward()
    assert cache.grad is not None and torch.equal(cache.grad, torch.zeros(2, n_cols))
    assert x.grad is not None and torch.allclose(x.grad, x.cos())


def test_another_dtype_stays_a_cast() -> None:
    x, nothing = torch.randn(2, 3, dtype=torch.bfloat16), torch.empty(2, 0)
    assert longhand.compile(with_empty_cache)(x, nothing).dtype is torch.float32
