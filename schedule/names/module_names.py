"""Which of a list's modules a value is of, in few words: ``layer_0_pwconv1``, not the whole path to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from longhand.schedule.names.words import identifier, reworded, singular, with_place

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.|$)")
Alike = Mapping[str, list[list[str]]]  # the parts of the paths that differ in numbers alone


def alike(paths: Iterable[str]) -> Alike:
    """The paths of modules, those together that differ only in which of their lists' modules they are."""
    groups: dict[str, list[list[str]]] = {}
    for path in dict.fromkeys(paths):
        groups.setdefault(_NUMBER.sub("*", path), []).append(path.split("."))
    return groups


def short_names(module: str, words: Iterable[str], layer: str, among: Alike) -> Iterator[str]:
    """The words with the module that makes the value, then also with the numbers that tell it from others like it.

    Args:
        module: Its path.
        words: Words for a value that is made there.
        layer: The path of the layer in whose function they are used, with a dot behind it: it is left out.
        among: The graph's modules.
    """
    module = module[len(layer) :] if layer and f"{module}.".startswith(layer) else module
    named = [part for part in module.split(".") if not part.isdigit() and part != "self"]
    if not named or not named[-1]:
        return
    last = identifier(named[-1])
    numbers = list(_telling_numbers(module, among))
    for before in ([], numbers) if numbers else ([],):
        ends_with_it = bool(before) and re.sub(r"(_\d+)+$", "", before[-1]) == singular(last)
        owner = "_".join([*before, *([] if ends_with_it else [last])])
        for word in words:
            yield reworded(with_place(word, owner, last), identifier)


def without_layers(layer: str) -> Callable[[str], str]:
    """What takes the place of another layer of the same list from words: ``previous_x`` of ``block_2_x`` in block 3.

    Args:
        layer: The path of the layer in whose function the words are used, with a dot behind it.
    """
    owner, _, position = layer.removesuffix(".").rpartition(".")
    if not position.isdigit():
        return str
    heads = dict.fromkeys([identifier(owner), singular(identifier(owner.rpartition(".")[2]))])
    of_another = re.compile(rf"(^|_)(?:{'|'.join(filter(None, heads))})_(\d+)_")

    def place(match: re.Match[str]) -> str:
        return f"{match[1]}previous_" if int(match[2]) == int(position) - 1 else match[1]

    return lambda word: of_another.sub(place, word)


def _telling_numbers(module: str, among: Alike) -> Iterator[str]:
    """``stage_1``, ``layer_0``, ``conv_1_0``: which of its list, where others like it are elsewhere in that list."""
    parts = module.split(".")
    others = among.get(_NUMBER.sub("*", module), ())
    numbers: dict[str, list[str]] = {}
    for place, part in enumerate(parts):
        if part.isdigit() and len({other[place] for other in others}) > 1:
            end = next((n for n in range(place, 0, -1) if not parts[n - 1].isdigit()), 0)
            numbers.setdefault(".".join(parts[:end]), []).append(part)
    for path, telling in numbers.items():
        yield "_".join([singular(path.rpartition(".")[2]) if path else "layer", *telling])
