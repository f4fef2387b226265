"""Filters of convolutions, channels last for the time of a call: those of one shape by one copy.

A unit's convolutions take images channels last. The user's filters are not: the library makes a copy of each that is,
in every call, which takes the host 12 us each. Of one shape they are joined here, and copied together: 24 filters
take 35 us. Nothing is remembered from call to call, since what writes into a weight need not say so.

A backward pass reads them once more, and makes gradients that lie as they do: those get the user's layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

__all__ = ["FiltersOfCall", "Slot"]

# Of a weight the dict that holds it, the module's own dict, where it is found at once, and its name.
Slot = tuple[dict[str, Any], dict[str, Any], str]
_FEWEST = 4  # fewer take as long as their own copies
_MOST_ELEMENTS = 2**20  # larger filters are no matter of the host, and their copies one of memory


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
        self._among_parameters: list[int] | None = None

    def look_at(self, weights: Sequence[torch.Tensor]) -> None:
        """Which of a call's weights have company: filters of one shape and dtype that are not channels last."""
        alike: dict[Any, list[tuple[Slot, torch.Tensor]]] = {}
        for place in self._filters:
            weight = weights[place]
            is_last = weight.is_contiguous(memory_format=torch.channels_last)
            if weight.is_contiguous() and not is_last and weight.numel() <= _MOST_ELEMENTS:
                key = weight.shape, weight.dtype, weight.device
                alike.setdefault(key, []).append((self._slots[place], weight))
        self._groups = [group for group in alike.values() if len(group) >= _FEWEST]
        self._among_parameters = None

    def __enter__(self) -> None:
        for group in self._groups:
            with torch.no_grad():
                joined = torch.cat([weight for _, weight in group])
                laid = joined.contiguous(memory_format=torch.channels_last).split(group[0][1].shape[0])
            for ((_, attributes, name), _), one in zip(group, laid, strict=True):
                attributes[name] = one

    def __exit__(self, *error: object) -> None:
        for group in self._groups:
            for (_, attributes, name), weight in group:
                attributes[name] = weight

    def as_parameters_lie(self, module: nn.Module, gradients: Sequence[Any]) -> Sequence[Any]:
        """What a backward pass inside returns, the gradients of these filters laid out as the user's filters are.

        Args:
            module: The unit's.
            gradients: Those of its parameters come last, in their order.
        """
        if not self._groups:
            return gradients
        if self._among_parameters is None:
            filters = {id(weight) for group in self._groups for _, weight in group}
            parameters = [*module.parameters()]
            places = [place for place, one in enumerate(parameters) if id(one) in filters]
            self._among_parameters = [place - len(parameters) for place in places]
        laid = [*gradients]
        for place in self._among_parameters:
            if laid[place] is not None:
                laid[place] = laid[place].contiguous()
        return tuple(laid)
