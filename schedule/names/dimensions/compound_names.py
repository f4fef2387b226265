"""The words of dimensions: none, one, or what several became: ``batch * seq``, ``padded_vocab``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from longhand.lower.ir import Size

Words = tuple[str | None, ...]


class ProductWord(str):
    """The word of dimensions that have become one: ``batch * seq``.

    Attributes:
        of: The word of each.
        sizes: How long each is, where that is known.
    """

    __slots__ = ("of", "sizes")
    of: tuple[str, ...]
    sizes: tuple[Size, ...]

    def __new__(cls, of: Sequence[str], sizes: Sequence[Size] = ()) -> ProductWord:
        made = super().__new__(cls, " * ".join(of))
        made.of = tuple(of)
        made.sizes = tuple(sizes)
        return made


class PaddedWord(str):
    """The word of a dimension that was padded: ``padded_vocab``.

    Attributes:
        of: The word of what was padded: ``vocab``.
    """

    __slots__ = ("of",)
    of: str

    def __new__(cls, of: str) -> PaddedWord:
        made = super().__new__(cls, f"padded_{of}")
        made.of = of
        return made


def product_word(words: Words, sizes: Sequence[Size] = ()) -> str:
    """The word of dimensions, of which each has one, that become one dimension."""
    parts = [part for word in words for part in parts_of(word)]
    if len(parts) == 1:
        return parts[0]
    known: list[Size] = []
    for word, size in zip(words, sizes, strict=False):
        known += word.sizes if isinstance(word, ProductWord) else [size]
    return ProductWord(parts, known if len(known) == len(parts) else ())


def parts_of(word: str | None) -> tuple[str, ...]:
    """The words of the dimensions that a word stands for: more than one where these have become one."""
    if word is None:
        return ()
    return word.of if isinstance(word, ProductWord) else (word,)


def apart(dims: Iterable[tuple[Size, str | None]], values: Mapping[str, Size]) -> tuple[list[Size], Words]:
    """Dimensions; one that was made of others, which are known, as these."""
    split_dims: list[tuple[Size, str | None]] = []
    for size, word in dims:
        of, sizes = (word.of, word.sizes) if isinstance(word, ProductWord) else ((), ())
        told = dict(zip(of, sizes, strict=False))
        parts = [(part, one) for one in of if (part := values.get(one, told.get(one))) is not None]
        is_known = len(parts) == len(of) > 0 and str(math.prod(part for part, _ in parts)) == str(size)
        split_dims += parts if is_known else [(size, word)]
    return [size for size, _ in split_dims], tuple(word for _, word in split_dims)
