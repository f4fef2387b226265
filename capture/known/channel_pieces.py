"""Which images' channels are reduced piece by piece by kernels of ours, and which are left to the library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = ["FEWEST_PIXELS", "has_channel_pieces"]

FEWEST_PIXELS = 16  # of a piece: fewer are not worth kernels of our own


def has_channel_pieces(shape: Sequence[Any]) -> bool:
    """Whether images of this shape, (batch, channels, *pixels), are; where the sizes vary they are taken as large."""
    n_pixels = math.prod(shape[2:])
    return len(shape) > 2 and (not isinstance(n_pixels, int) or n_pixels >= FEWEST_PIXELS)
