"""The words for sizes that a function binds at its beginning, as lines: ``dim, vocab_size = 64, 99``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

_WIDEST = 90  # of a line that says what words stand for


@dataclasses.dataclass(frozen=True)
class BoundSizes:
    """The words for sizes that a function uses.

    Attributes:
        told: Lines that bind those that the shapes of its arguments tell.
        stated: What the others stand for: a number, or what holds it.
        padding: Lines for sizes with their padding.
    """

    told: tuple[str, ...]
    stated: Mapping[str, int | str]
    padding: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """All lines, in order."""
        found, rest = list(self.told), list(self.stated)
        while rest:
            few = next(
                n for n in range(len(rest), 0, -1) if n == 1 or len(_stated(self.stated, rest[:n])) <= _WIDEST
            )
            found.append(_stated(self.stated, rest[:few]))
            rest = rest[few:]
        return (*found, *self.padding)


def _stated(sizes: Mapping[str, int | str], words: Sequence[str]) -> str:
    """``dim, vocab_size = 64, 99``"""
    return f"{', '.join(words)} = {', '.join(str(sizes[word]) for word in words)}"
