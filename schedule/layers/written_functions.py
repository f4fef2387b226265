"""Which of the functions that were written down are one.

Whether two functions do the same shows when their statements are made: only then is it known which words for sizes a
function binds. So the printer hands over what each does as a value that may be compared, and asks here what follows:
which modules call one function, which class is made from another one's, which lists of layers have one class.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar


class WrittenFunction(Protocol):
    """A function as the printer wrote it."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """What it takes, beside its module where it is a shared one's."""

    @property
    def stated(self) -> Mapping[str, int | str]:
        """What words for sizes stand for that no tensor tells."""

    @property
    def needed(self) -> tuple[str, ...]:
        """Symbols of sizes that it must be given."""

    @property
    def pads(self) -> bool:
        """Whether it binds words for padded sizes."""

    @property
    def work(self) -> object:
        """What it does: equal where the statements are, whatever their words for sizes stand for."""

    @property
    def bound(self) -> object:
        """Its words for sizes, with what they stand for."""


_Function = TypeVar("_Function", bound=WrittenFunction)


def as_one(functions: Iterable[_Function], given: Collection[str] = ()) -> list[_Function] | None:
    """The functions, if one of them does for all; None where what they do, or what tells their sizes, differs.

    They are written one by one: after the first that differs none is.

    Args:
        functions: The function for each of the modules.
        given: Symbols of sizes that it may be given.
    """
    alike: list[_Function] = []
    for one in functions:
        if not {*one.needed} <= {*given} or one.pads or (alike and one.work != alike[0].work):
            return None
        alike.append(one)
    return alike


def is_same(one: WrittenFunction, other: WrittenFunction) -> bool:
    """Whether a function does what another one does for the same sizes: nobody needs both."""
    return one.work == other.work and one.bound == other.bound


def inherited(functions: Sequence[WrittenFunction], base: Sequence[WrittenFunction]) -> frozenset[str]:
    """The names of those that a class has from the one that it is made from."""
    return frozenset(
        one.name for one in functions if any(one.name == other.name and is_same(one, other) for other in base)
    )
