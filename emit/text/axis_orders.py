"""Tensors whose axes come in another order than a kernel's: the call that brings them there."""

from __future__ import annotations

from collections.abc import Sequence


def axis_order_call(order: Sequence[str], wanted: Sequence[str]) -> str:
    """The call that brings dimensions in `order` into the order `wanted`."""
    moved = [place for place, axis in enumerate(wanted) if order[place] != axis]
    if len(moved) == 2:
        if len(order) == 2:
            return ".t()"
        one, other = (place - len(order) if moved[0] >= len(order) - 2 else place for place in moved)
        return f".transpose({one}, {other})"
    return f".permute({', '.join(str(order.index(axis)) for axis in wanted)})"
