"""A number that ATen's schema calls `self` is an argument by position: Python has no word for it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import longhand


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.searchsorted(x, 0.5, right=True),
        lambda x: torch.bucketize(0.5, x, out_int32=True),
    ],
)
def test_it_is_given_by_position(function, tmp_path: Path) -> None:
    x = torch.rand(20).sort().values
    longhand.generate(function, (x,), out=tmp_path / "unit")
    assert torch.equal(longhand.load(tmp_path / "unit")(x), function(x))
