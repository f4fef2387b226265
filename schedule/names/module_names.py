"""Which of a list's modules a value or a function is of, in few words: ``layer_0_pwconv1``, not the whole path."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from longhand.schedule.names.words import further_names, identifier, reworded, singular, with_place

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


def names_of_places(paths: Sequence[str]) -> Iterator[str]:
    """What tells what is of some modules from what is of others: ``layer2_1``, ``block4_to_block11``, ``fc1_and_fc2``.

    The shortest first, and once what is called alike in both of two places; none of a path that is only a place, nor
    of many that are not one after the other.
    """
    words = [list(_words_of_place(path)) for path in paths]
    if len(paths) == 1:
        yield from words[0]
    elif len(paths) == 2 or _are_in_turn(paths):
        joint = "and" if len(paths) == 2 else "to"
        ordered = sorted(paths, key=lambda path: (_order(path), path))
        first, last = (words[paths.index(one)] for one in (ordered[0], ordered[-1]))
        for one, other in zip(first, last, strict=False):
            yield one if one == other else _joined(one, joint, other)


def _joined(one: str, joint: str, other: str) -> str:
    """``fc1_and_fc2``; ``stage_1_and_3_attn`` of ``stage_1_attn`` and ``stage_3_attn``: what both say is said once."""
    pairs = list(zip(one.split("_"), other.split("_"), strict=False))
    differing = [n for n, (first, last) in enumerate(pairs) if first != last]
    if (
        one.count("_") != other.count("_")
        or len(differing) != 1
        or not all(map(str.isdigit, pairs[differing[0]]))
    ):
        return f"{one}_{joint}_{other}"
    return "_".join(f"{first}_{joint}_{last}" if first != last else first for first, last in pairs)


def _words_of_place(path: str) -> Iterator[str]:
    """``layer_3_attn`` and then more of encoder.layers.3.attn, from its last list on; ``attn`` of encoder.attn."""
    parts = path.split(".")
    following = [*parts[1:], ""]
    words = [singular(one) if after.isdigit() else one for one, after in zip(parts, following, strict=True)]
    lists = [n for n, after in enumerate(following) if after.isdigit() and not parts[n].isdigit()]
    for start in range(max(lists, default=len(parts) - 1), -1, -1):
        if not words[start].isdigit():
            yield identifier("_".join(words[start:]))


def _are_in_turn(paths: Sequence[str]) -> bool:
    """Whether paths differ in one number, and that goes up by one."""
    numbers = sorted(map(_order, paths))
    columns = [{*column} for column in zip(*numbers, strict=False)]
    differing = [column for column in columns if len(column) > 1]
    texts = {re.sub(r"\d+", "0", path) for path in paths}
    return len(texts) == 1 and len(differing) == 1 and max(differing[0]) - min(differing[0]) == len(paths) - 1


def _order(path: str) -> tuple[int, ...]:
    """The numbers in a path."""
    return tuple(map(int, re.findall(r"\d+", path)))


def class_of_place(path: str) -> str:
    """``Layer1Block`` of ``layers.1.blocks``; ``Stage2Layer1`` of ``stage2.1``, whose owner's name has a number."""
    told = ""
    for part, after in itertools.pairwise([*path.split("."), ""]):
        is_bare = part.isdigit() and (not told or told[-1].isdigit())
        word = singular(part) if after.isdigit() else part
        pieces = ["layer", part] if is_bare else identifier(word).split("_")
        told += "".join(piece[:1].upper() + piece[1:] for piece in pieces)
    return told


def ordinal_classes() -> Iterator[str]:
    """``Other``, ``Third``, ``Fourth``: what stands before a class name that is there already; without an end."""
    yield "Other"
    for word in itertools.islice(further_names(""), 1, None):
        yield "".join(map(str.capitalize, word.split("_")))
