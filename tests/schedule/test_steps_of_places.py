"""Which steps along a tensor lead to a place: only where its sizes say so."""

from __future__ import annotations

import sympy
import torch

from longhand.lower.ir import Buffer, BufferKind, Size
from longhand.schedule.kernels.walked_dims import FewStrides, steps_to


def image(height: Size) -> Buffer:
    """(batch, height, width), each row of 8."""
    return Buffer("x", BufferKind.INTERMEDIATE, torch.float32, (2, height, 8), (800, 8, 1))


def test_a_row_and_a_column() -> None:
    assert steps_to(-9, image(100)) == (FewStrides(1, 1), FewStrides(1, None))


def test_of_as_many_rows_as_there_are_none_is_a_step() -> None:
    assert steps_to(8, image(1)) == ()


def test_a_size_that_varies_is_compared_with_nothing() -> None:
    """Nobody knows whether it has another row; sympy raises where it is asked."""
    assert steps_to(8, image(sympy.Symbol("height", integer=True, positive=True))) == ()
