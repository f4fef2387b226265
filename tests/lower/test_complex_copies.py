"""A result that is a view of another, of numbers that no kernel computes with, is copied by ATen."""

from __future__ import annotations

from pathlib import Path

import torch

import longhand


def unshuffled(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pixel_unshuffle(x, 1)


def test_a_complex_argument_that_is_returned_in_training(tmp_path: Path) -> None:
    x = torch.randn(2, 3, 4, dtype=torch.complex64, requires_grad=True)
    longhand.generate(unshuffled, (x,), out=tmp_path / "unit", train=True)
    found = longhand.load(tmp_path / "unit")(x)
    assert torch.equal(found, x) and found.data_ptr() != x.data_ptr()
    found.backward(torch.ones_like(x) * 2j)
    assert torch.equal(x.grad, torch.full_like(x, 2j))
