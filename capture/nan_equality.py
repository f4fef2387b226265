"""Dataclasses that hold numbers are equal where the numbers are the same, NaN included.

Until Python 3.12 a dataclass compared its fields as a tuple, which takes one NaN for itself; from 3.13 on it compares
them with ``==`` alone, and a load whose masked lanes read NaN would never be the load that it is: what is equal would
be computed twice, and a pass that runs until nothing changes would find a change for ever.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def nan_equals_itself(decorated: type[T]) -> type[T]:
    """Compares as a tuple of the fields does, on every Python.

    Args:
        decorated: What becomes a frozen dataclass: the decorator stands below ``@dataclasses.dataclass``, which keeps
            a comparison that it finds.
    """

    def equals(self: object, other: object) -> bool:
        # A dictionary looks for the same object before it asks for an equal one.
        return type(self) is type(other) and vars(self) == vars(other)

    decorated.__eq__ = equals  # type: ignore[method-assign]
    return decorated
