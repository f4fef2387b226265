"""What layers are called by that end in the norm of the next one: that norm, and what they hand on to it.

Backwards it is the norm of the one before: ``previous_norm``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from longhand.schedule.layers.model_steps import Following, Preceding
from longhand.schedule.names.words import identifier

_NORMS = ("norm", "ln")


def words_of_following(following: Following) -> Iterator[str]:
    """``norm``: what the modules that come next are called in common; ``module`` where that is nothing."""
    return _common_words(following.path, following.last)


def words_of_preceding(preceding: Preceding) -> Iterator[str]:
    """``norm``, likewise, of what comes before layers."""
    return _common_words(preceding.path, preceding.first)


def _common_words(path: str, of_the_last: str) -> Iterator[str]:
    one, other = (one.rpartition(".")[2] for one in (path, of_the_last))
    ends = _common_start(one[::-1], other[::-1])[::-1], _common_start(one, other)
    shared = max(ends, key=len).strip("_0123456789")
    # They compute the same: where one is called a norm, the other is one.
    known = ["norm"] if "norm" in f"{one} {other}".lower() else []
    return map(identifier, (*known, *[shared] * (len(shared) > 1), "module"))


def words_handed_on(following: Following | None, words: Iterable[str]) -> Iterator[str]:
    """The words for what a layer takes or hands on; what is only called after one layer's norm is ``normed``."""
    if following is None:
        yield from words
        return
    own = identifier(following.path.rpartition(".")[2])
    is_norm = next(words_of_following(following)) in _NORMS
    for word in words:
        yield "normed" if is_norm and word == own else word


def _common_start(one: str, other: str) -> str:
    length = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    return one[: min(len(one), len(other)) if length is None else length]
