"""One size as it is written, with the words that it names: ``2 * seq``, ``conv.shape[1]``, ``768``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from longhand.lower.ir import Buffer, Size


@dataclasses.dataclass(frozen=True)
class SizeText:
    """A size as it is written.

    Attributes:
        text: By itself.
        words: Those that it names.
        is_factor: Whether it stands in a product without parentheses.
        is_number: Whether it is one.
    """

    text: str
    words: frozenset[str] = frozenset()
    is_factor: bool = True
    is_number: bool = False

    @property
    def factor(self) -> str:
        """In a product."""
        return self.text if self.is_factor else f"({self.text})"


_LARGEST_BARE = 9  # of a number that needs no word


def is_bare(text: str) -> bool:
    """Whether a size is a number that a reader would ask about."""
    return text.isdigit() and int(text) > _LARGEST_BARE


def is_path(text: str) -> bool:
    """Whether an expression is a variable or an attribute, and not a view that is made for one call."""
    return text.replace(".", "").isidentifier()


def read_from(
    variable: str, buffer: Buffer, group: Sequence[tuple[Size, str | None]], texts: Sequence[SizeText]
) -> list[SizeText]:
    """The sizes of a group of a tensor's dimensions, numbers as the tensor tells them: ``conv.shape[1]``.

    Small numbers stay, and those of a tensor that has several dimensions so large.
    """
    shape = [str(size) for size in buffer.shape]
    is_last = [bool(group) and str(size) == shape[-1] for size, _ in group]
    found = []
    for (size, _), text, last in zip(group, texts, is_last, strict=True):
        is_told = is_path(variable) and shape.count(str(size)) == 1
        place = -1 if last else shape.index(str(size))
        found.append(SizeText(f"{variable}.shape[{place}]") if is_bare(text.text) and is_told else text)
    return found
