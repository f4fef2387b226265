"""Tensors of a kernel without the places of lists: ``gate_out`` of ``stage_0_gate_out``, where no other is called so.

Its caller tells whose a tensor is. A kernel only wants to tell its own tensors apart: ``head_1_projected`` beside
``head_2_projected`` stays, and so does ``shortcut_bias`` beside ``bias``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from longhand.schedule.names.words import identifier, reworded, singular, undifferentiated

_OF_NO_NAME = ("layer", "block")  # what the place in a list without a word of its own stands behind
_OF_WRITTEN = frozenset({"out", "output", "result"})  # what a kernel reads is none of these


def without_lists(
    names: Mapping[str, str], paths: Mapping[str, Collection[str]], written: Collection[str]
) -> dict[str, str]:
    """Those names that may be shorter, as they are then.

    A tensor and its gradient have one word, and stay so.

    Args:
        names: Of a kernel's tensors, by pointer.
        paths: By pointer: of the modules that make what the calls pass, or hold it.
        written: The pointers that the kernel writes.
    """
    alike: defaultdict[str, list[str]] = defaultdict(
        list
    )  # pointers by what they, or their gradients, are called
    for pointer, word in names.items():
        alike[undifferentiated(word)].append(pointer)
    shorter = {
        word: [
            one
            for one in dict.fromkeys(_shorter(word, {path for pointer in some for path in paths[pointer]}))
            if one not in _OF_WRITTEN or all(pointer in written for pointer in some)
        ]
        for word, some in alike.items()
    }
    chosen: dict[str, str] = {}
    for word, some in alike.items():
        others = [other for other in alike if other != word]
        said = {*others, *(one for other in others for one in shorter[other])}
        free = (one for one in shorter[word] if not any(f"_{other}".endswith(f"_{one}") for other in said))
        if (plain := next(free, None)) is not None:
            chosen |= {pointer: _renamed(names[pointer], plain) for pointer in some}
    return chosen


def _renamed(word: str, plain: str) -> str:
    return reworded(word, lambda _: plain)


def _shorter(word: str, paths: Collection[str]) -> Iterator[str]:
    """``act`` and ``conv_act``, of ``stage_0_conv_1_act``."""
    for path in paths:
        parts = path.split(".")
        lists = {
            one
            for part in parts
            if not part.isdigit()
            for one in (identifier(part), singular(identifier(part)))
        }
        places = {part for part in parts if part.isdigit()}
        if not places:
            continue
        heads = "|".join(map(re.escape, sorted({*lists, *_OF_NO_NAME}, key=len, reverse=True)))
        at = f"(?:.*_)?({heads})_(?:{'|'.join(sorted(places))})_(.*[a-zA-Z].*)"
        if (match := re.fullmatch(at, word)) is not None and not match[2][:1].isdigit():
            yield match[2]
            yield f"{match[1]}_{match[2]}"
