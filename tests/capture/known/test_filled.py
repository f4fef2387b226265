"""Empty memory that is filled part by part is a join of its parts; where that is not all, it stays what it was."""

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


@pytest.mark.parametrize(
    ("function", "is_joined"),
    [
        (two_halves, True),
        (last_first, True),
        (returned_as_it_is, False),
        (one_part_twice, False),
        (filled_before, False),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_what_is_filled_part_by_part(
    function: Callable[..., torch.Tensor], is_joined: bool, tmp_path: Path
) -> None:
    a, b = torch.randn(2, 3, 4), torch.randn(4, 3, 4)
    b = b[:2] if function is two_halves else b
    longhand.generate(function, (a, b), out=tmp_path / "unit")
    torch.testing.assert_close(longhand.load(tmp_path / "unit")(a, b), function(a, b))
    text = "".join(
        path.read_text() for path in (tmp_path / "unit").rglob("*") if path.suffix in (".py", ".cpp")
    )
    assert "slice_scatter" not in text or not is_joined
    model = (tmp_path / "unit" / "model.py").read_text()
    assert model.count("kernels.") == 1 or not is_joined
