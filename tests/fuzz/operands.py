"""What a statement of a random program asks of its operands."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.fuzz.programs import Writer


def is_float(value: Tensor) -> bool:
    """Floating-point numbers."""
    return value.dtype.is_floating_point


def is_number(value: Tensor) -> bool:
    """Anything but bools."""
    return value.dtype is not torch.bool


def is_whole(value: Tensor) -> bool:
    """Whole numbers."""
    return not value.dtype.is_floating_point and value.dtype is not torch.bool


def is_bool(value: Tensor) -> bool:
    """Bools."""
    return value.dtype is torch.bool


def dim_of(writer: Writer, value: Tensor) -> int:
    """A dimension, counted from either end; 0 of what has none."""
    return writer.draw.randint(-value.dim(), value.dim() - 1) if value.dim() else 0
