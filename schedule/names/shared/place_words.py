"""Words without the place of a module in them: ``x`` of ``block_0_attn_x``, in the function that all blocks' have."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Sequence

from longhand.schedule.names.words import identifier, is_identifier, reworded, singular, undifferentiated


def attribute_of(path: str) -> str:
    """``self_attn``; ``block`` of those in a list of ``blocks``."""
    *owners, last = path.split(".")
    if not last.isdigit():
        return identifier(last)
    words = [one for one in owners if not one.isdigit()]
    return singular(identifier(words[-1])) if words else "layer"


def without_place(names: Iterable[str], path: str, taken: Container[str]) -> dict[str, str]:
    """Names that begin with where a module is, by what they are in any of them: ``x`` of ``block_0_attn_x``.

    Where that is taken it is the module's, whichever it is: ``attn_x``.
    """
    words: dict[str, str] = {}
    parts = path.split(".")
    heads, own = list(_heads(parts)), attribute_of(path)
    of_lists = tuple(f"{part}_" for part, after in itertools.pairwise(parts) if after.isdigit())
    for name in names:
        inside = next((name.removeprefix(head) for head in heads if name.startswith(head)), "")
        if inside[:1].isdigit() and name.removesuffix(inside).endswith(of_lists):  # another one's of the list
            continue
        for word in (inside, f"{own}_{inside}") if inside else ():
            if is_identifier(word) and word not in taken and word not in words.values():
                words[name] = word
                break
    return words


def without_parts(names: Iterable[str], path: str, taken: Container[str]) -> dict[str, str]:
    """As `without_place`, of a derivative, whose words tell the place in parts: ``stage_3_conv_x``, ``d_stage_3_x``.

    What begins with parts of the path, in their order, is called by what is left, if nothing else is called so; else
    it is the module's.
    """
    parts = [part for word in path.split(".") for part in (word, singular(word)) for part in part.split("_")]

    own = attribute_of(path)

    def within(word: str) -> str:
        return f"{own}_{word}"

    def without(word: str) -> str:
        rest, at = word.split("_"), 0
        while len(rest) > 1 and rest[0] in parts[at:]:
            at = parts.index(rest[0], at) + 1
            rest = rest[1:]
        return "_".join(rest)

    words: dict[str, str] = {}
    for name in names:
        inside = reworded(name, without)
        is_told = inside != name and is_identifier(undifferentiated(inside))
        for word in (inside, reworded(inside, within)) if is_told else ():
            is_short = word not in {name, *words.values()} and word not in taken
            if is_short and is_identifier(undifferentiated(word)):
                words[name] = word
                break
    return words


def _heads(parts: Sequence[str]) -> Iterator[str]:
    """How names of what is in a module may begin, the longest first: ``blocks_0_attn_``, ``block_0_attn_``...

    Then those that say where the modules around it are, which is another place for each: ``block_0_``.
    """
    for end in range(len(parts), 0, -1):
        for start in range(end):
            part = parts[start:end]
            if end < len(parts) and not any(word[-1:].isdigit() for word in part):
                continue
            following = [*part[1:], ""]
            ones = [
                singular(word) if after.isdigit() else word
                for word, after in zip(part, following, strict=True)
            ]
            yield from (f"{'_'.join(words)}_" for words in (part, ones))
