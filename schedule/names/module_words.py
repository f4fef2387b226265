"""Which of a list's modules a value is of, in few words: ``layer_0_pwconv1``, not the whole path to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from longhand.schedule.names.value_origins import last_word, without_positions
from longhand.schedule.names.words import identifier, singular

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.|$)")
Alike = Mapping[str, list[list[str]]]  # the parts of the paths that differ in numbers alone


def alike(paths: Iterable[str]) -> Alike:
    """The paths of modules, those together that differ only in which of their lists' modules they are."""
    found: dict[str, list[list[str]]] = {}
    for path in dict.fromkeys(paths):
        found.setdefault(_NUMBER.sub("*", path), []).append(path.split("."))
    return found


def short_words(module: str, words: Iterable[str], layer: str, among: Alike) -> Iterator[str]:
    """The words with the module that makes the value, then also with the numbers that tell it from others like it.

    Args:
        module: Its path.
        words: Words for a value that is made there.
        layer: The path of the layer in whose function they are used, with a dot behind it: it is left out.
        among: The graph's modules.
    """
    module = module[len(layer) :] if layer and f"{module}.".startswith(layer) else module
    last = last_word(without_positions(module))
    if last is None:
        return
    numbers = list(_telling_numbers(module, among))
    for before in ([], numbers) if numbers else ([],):
        for word in words:
            plain = word.removeprefix("d_")
            rest = [] if plain == last else [plain.removeprefix(f"{last}_")]
            ends_with_it = bool(before) and re.sub(r"_\d+$", "", before[-1]) == singular(last)
            parts = [*before, *([] if ends_with_it else [last]), *rest]
            yield f"{word[: len(word) - len(plain)]}{identifier('_'.join(parts))}"


def _telling_numbers(module: str, among: Alike) -> Iterator[str]:
    """``stage_1``, ``layer_0``: which of its list, where others like it are elsewhere in that list."""
    parts = module.split(".")
    others = among.get(_NUMBER.sub("*", module), ())
    for place, part in enumerate(parts):
        if part.isdigit() and len({other[place] for other in others}) > 1:
            of = next((word for word in reversed(parts[:place]) if not word.isdigit()), "")
            yield f"{singular(of)}_{part}" if of else part
