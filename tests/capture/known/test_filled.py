"""Empty memory that is filled part by part: a join of its parts where these are all, and never memory to read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import longhand


def two_halves(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    states = a.new_empty(*a.shape[:-1], 7)
    states[..., :4].copy_(a * 2)
    states[..., 4:].copy_(b[:, :, :3].sin())
    return states + 1


def last_first(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    states = torch.empty(5, 3, 4)
    states[1:] = b
    states[:1] = a[:1]
    return states.tanh()


def returned_as_it_is(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    states = a.new_empty(2, 3, 8)
    states[..., :4] = a
    states[..., 4:] = b[:2]
    return states


def one_part_twice(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    states = a.new_empty(2, 3, 8)
    states[..., :4] = a
    states[..., 3:] = b[:2, :, :1]
    return states * 2


def filled_before(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    states = torch.zeros(2, 3, 8)
    states[..., :4] = a
    states[..., 6:] = b[:2, :, :2]
    return states * 2


def by_keyword(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    states = torch.slice_scatter(a.new_empty(2, 3, 7), b[:2], dim=-1, end=4)
    return torch.slice_scatter(states, a[..., :3], dim=2, start=4).neg()


def a_part_by_keyword(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """What nothing was written into is not looked at."""
    return torch.slice_scatter(a.new_empty(2, 3, 7), b[:2], dim=-1, start=2, end=6)[..., 2:6].neg()


def of_another_type(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    states = torch.empty(2, 3, 8, dtype=torch.bfloat16)
    return states.slice_scatter(a, -1, 0, 4).slice_scatter(b[:2], -1, 4, 8).neg()


JOINED, REPLACED, ALONE = "_end=", "n_filled", "numel"  # what the kernel is given


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (two_halves, JOINED),
        (last_first, JOINED),
        (by_keyword, JOINED),
        (a_part_by_keyword, ALONE),
        (of_another_type, REPLACED),
        (returned_as_it_is, REPLACED),
        (one_part_twice, REPLACED),
        (filled_before, REPLACED),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_what_is_filled_part_by_part(
    function: Callable[..., torch.Tensor], given: str, tmp_path: Path
) -> None:
    a, b = torch.randn(2, 3, 4), torch.randn(4, 3, 4)
    b = b[:2] if function is two_halves else b
    longhand.generate(function, (a, b), out=tmp_path / "unit")
    torch.testing.assert_close(longhand.load(tmp_path / "unit")(a, b), function(a, b))
    model = (tmp_path / "unit" / "model.py").read_text()
    made = [line for line in model.splitlines() if "empty(" in line and "#" not in line]
    assert len(made) == model.count("kernels.") == 1, "what nothing was written into is not read"
    assert given in model
