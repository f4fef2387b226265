"""Sizes that no word tells are read from a tensor: ``conv.shape[1]``."""

from __future__ import annotations

import torch

from longhand.emit.text.sizes import SizeText, _read_from
from longhand.lower.ir import Buffer, BufferKind

IMAGE = Buffer("conv", BufferKind.INTERMEDIATE, torch.float32, (49, 64), (64, 1))


def texts(*sizes: int) -> list[str]:
    found = _read_from(
        "conv", IMAGE, [(size, None) for size in sizes], [SizeText(str(size)) for size in sizes]
    )
    return [text.text for text in found]


def test_large_numbers_are_told_by_the_tensor() -> None:
    assert texts(49, 64) == ["conv.shape[0]", "conv.shape[-1]"]


def test_parts_of_a_product_stay() -> None:
    """LeViT: 49 pixels are 7 times 7, and no dimension is 7."""
    assert texts(7, 7, 64) == ["7", "7", "conv.shape[-1]"]
