"""The words of dimensions behind a reshape: ``batch * seq`` of those that become one."""

from __future__ import annotations

from collections.abc import Sequence

from longhand.lower.ir import Size
from longhand.schedule.names.dimensions.compound_names import ProductWord, Words, parts_of, product_word


def reshaped(old: tuple[Size, ...], words: Words, new: tuple[Size, ...]) -> Words:
    """Dimensions that stay, counted from both ends, keep their words; those that become one have its product.

    Where they are of one element they come and go.
    """
    known = tuple(words) + (None,) * (len(old) - len(words))
    kept = [place for place, size in enumerate(old) if str(size) != "1"]
    places = [place for place, size in enumerate(new) if str(size) != "1"]
    made = _reshaped([old[i] for i in kept], [known[i] for i in kept], [new[i] for i in places])
    by_place = dict(zip(places, made, strict=True))
    plain = _reshaped(list(old), list(known), list(new))
    extra = tuple(by_place.get(place) for place in range(len(new)))
    return tuple(
        word if word is not None else other if other not in plain or known.count(other) > 1 else None
        for word, other in zip(plain, extra, strict=True)
    )


def _reshaped(old: Sequence[Size], words: Sequence[str | None], new: Sequence[Size]) -> list[str | None]:
    new_words: list[str | None] = [None] * len(new)
    front = 0
    while front < min(len(old), len(new)) and str(old[front]) == str(new[front]):
        new_words[front] = words[front]
        front += 1
    tail = 0
    for back in range(1, min(len(old), len(new)) - front + 1):
        if str(old[-back]) != str(new[-back]):
            break
        new_words[-back] = words[-back]
        tail = back
    for of, to in _groups(old, new, range(front, len(old) - tail), range(front, len(new) - tail)):
        inner = [words[place] for place in of]
        if len(to) == 1 < len(of) and all(inner):
            new_words[to[0]] = product_word(tuple(inner), [old[place] for place in of])
        elif len(of) == 1 < len(to):
            new_words[to[0] : to[-1] + 1] = _taken_apart(inner[0], [new[place] for place in to])
        elif len(of) == len(to) == 1:
            new_words[to[0]] = inner[0]
    return new_words


def _taken_apart(word: str | None, sizes: Sequence[Size]) -> list[str | None]:
    """The words of what a dimension is taken apart into: its own parts, one or several that stay together."""
    unknown: list[str | None] = [None] * len(sizes)
    parts = list(parts_of(word))
    if not isinstance(word, ProductWord) or len(word.sizes) != len(parts):
        return [*parts] if len(parts) == len(sizes) else unknown
    lengths, made = list(word.sizes), list[str | None]()
    for size in sizes:
        n_taken, length = 0, 1
        while n_taken < len(lengths) and (n_taken == 0 or str(length) != str(size)):
            length = length * lengths[n_taken]
            n_taken += 1
        if str(length) != str(size):
            return unknown
        made.append(product_word(tuple(parts[:n_taken]), lengths[:n_taken]) if n_taken else None)
        parts, lengths = parts[n_taken:], lengths[n_taken:]
    return unknown if parts else made


def _groups(
    old: Sequence[Size], new: Sequence[Size], of: Sequence[int], to: Sequence[int]
) -> list[tuple[list[int], list[int]]]:
    """Which dimensions become which: (batch, seq, heads, dim) as two, (batch, seq) and (heads, dim).

    Args:
        old: The sizes before.
        new: The sizes after.
        of: The places before that are looked at, one beside the other.
        to: The places after.
    """
    if not of or not to or not all(isinstance(size, int) and size > 1 for size in (*old, *new)):
        return [([*of], [*to])] if of and to else []
    groups: list[tuple[list[int], list[int]]] = [([], [])]
    before, after = [*of], [*to]
    n_old = n_new = 1
    while before or after:
        if before and (n_old <= n_new or not after):
            n_old *= int(old[before[0]])
            groups[-1][0].append(before.pop(0))
        else:
            n_new *= int(new[after[0]])
            groups[-1][1].append(after.pop(0))
        if n_old == n_new and before and after:
            groups.append(([], []))
    return groups
