"""Filters of convolutions, channels last for the time of a call: those of one shape by one copy.

A unit's convolutions take images channels last. The user's filters are not: the library makes a copy of each that is,
in every call, which takes the host 12 us each. Of one shape they are stacked here, and the stack is copied: 24 filters
take 35 us. Nothing is remembered from call to call, since what writes into a weight need not say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

__all__ = ["FiltersOfCall", "Slot"]

# Of a weight the dict that holds it, the module's own dict, where it is found at once, and its name.
Slot = tuple[dict[str, Any], dict[str, Any], str]
_FEWEST = 4  # fewer take as long as their own copies


class FiltersOfCall:
    """While it is entered, a unit's module finds filters that are channels last.

    Args:
        slots: Of the weights, in the order in which they come with a call.
    """

    def __init__(self, slots: Iterable[Slot]) -> None:
        self._slots = tuple(slots)
        # What a unit says of its own: only convolutions read it, which take it in any layout.
        self._filters = [
            place
            for place, (holder, _, name) in enumerate(self._slots)
            if hasattr(holder[name], "lies_as_it_likes")
        ]
        self._groups: list[list[tuple[Slot, torch.Tensor]]] = []

    def look_at(self, weights: Sequence[torch.Tensor]) -> None:
        """Which of a call's weights have company: filters of one shape and dtype that are not channels last."""
        alike: dict[Any, list[tuple[Slot, torch.Tensor]]] = {}
        for place in self._filters:
            weight = weights[place]
            is_last = weight.is_contiguous(memory_format=torch.channels_last)
            if weight.is_contiguous() and not is_last:
                key = weight.shape, weight.dtype, weight.device
                alike.setdefault(key, []).append((self._slots[place], weight))
        self._groups = [group for group in alike.values() if len(group) >= _FEWEST]

    def __enter__(self) -> None:
        for group in self._groups:
            with torch.no_grad():
                stacked = torch.stack([weight for _, weight in group])
                laid = stacked.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3).unbind()
            for ((_, attributes, name), _), one in zip(group, laid, strict=True):
                attributes[name] = one

    def __exit__(self, *error: object) -> None:
        for group in self._groups:
            for (_, attributes, name), weight in group:
                attributes[name] = weight
