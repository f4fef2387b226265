"""The dimensions that a kernel walks where it takes a part of a tensor: half of each row, one of three blocks."""

from __future__ import annotations

from collections.abc import Sequence

from longhand.lower.ir import Size
from longhand.schedule.names.dimensions.compound_names import Words
from longhand.schedule.names.dimensions.dimension_propagation import grouped


def grouped_before_last(
    shape: Sequence[Size], words: Words, sizes: Sequence[Size]
) -> list[list[tuple[Size, str | None]]] | None:
    """As `grouped`, of all sizes but the last, which is that of a part: its group is empty. None if they do not fit."""
    heads = grouped(shape[:-1], words[:-1], sizes[:-1]) if len(shape) > 1 and len(sizes) > 1 else None
    return [*heads, []] if heads is not None else None
