"""Comparisons of random numbers that come out one way, whatever is drawn: ``torch.rand([]) < 0.0`` never holds.

``torch.rand`` draws from 0, which it may give, to 1, which it never gives. So a layer that is skipped with a
probability of 0 is never skipped, and its model is one graph. The number is drawn all the same: eager's next one is
another then.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from longhand.capture import torch_private
from longhand.capture.bytecode.entry.call_effects import name_of

__all__ = ["DrawnNumbers"]

_DRAWS = frozenset(["rand", "rand_like"])
_DTYPES = frozenset([torch.float32, torch.float64])  # fewer digits may round a number up to 1
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {name: getattr(operator, name) for name in _MIRRORED}


@dataclasses.dataclass(frozen=True)
class _Drawn:
    """A fake tensor of numbers in [0, 1), and how often it had been written to when they were drawn."""

    fake: torch.Tensor
    version: int


class DrawnNumbers:
    """The fake tensors that `torch.rand` gave, as long as nobody writes into them."""

    def __init__(self) -> None:
        self._drawn: dict[int, _Drawn] = {}

    def follow(self, target: Any, made: Any) -> None:
        """Notes what a call gives, if it draws."""
        is_draw = name_of(target) in _DRAWS and getattr(target, "__module__", None) in (None, "torch")
        if is_draw and isinstance(made, torch.Tensor) and made.dtype in _DTYPES:
            self._drawn[id(made)] = _Drawn(made, torch_private.version(made))

    def compared(self, target: Any, args: Any) -> bool | None:
        """What a comparison of drawn numbers with a number gives for all that can be drawn; None if it depends."""
        name = name_of(target).strip("_")
        if name not in _COMPARISONS or len(args) != 2:
            return None
        left, right = args
        if self._is_drawn(right):
            left, right, name = right, left, _MIRRORED[name]
        if not self._is_drawn(left) or not _is_number(right):
            return None
        with torch_private.no_fake_mode():
            # What it is compared with where that is no double.
            rounded = torch.tensor(float(right), dtype=left.dtype, device="cpu").item()
        holds, ends = _COMPARISONS[name], (0.0, math.nextafter(1.0, 0.0))
        # From the least number that can be drawn to the greatest, a comparison with one number changes at most once.
        outcomes = {holds(end, limit) for end in ends for limit in (right, rounded)}
        return outcomes.pop() if len(outcomes) == 1 else None

    def _is_drawn(self, value: Any) -> bool:
        drawn = self._drawn.get(id(value))
        return drawn is not None and drawn.fake is value and torch_private.version(value) == drawn.version


def _is_number(value: Any) -> bool:
    """Whether it is one that a double holds as it is."""
    is_whole = isinstance(value, int) and abs(value) < 2**53
    return is_whole or (isinstance(value, float) and not math.isnan(value))
