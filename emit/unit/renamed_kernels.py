"""Finds where an edited kernel that the new version does not have lives on: under another name, with the edit.

A kernel is named after its math, so a factor more gives it another name. What longhand wrote there (the base of the
edit) tells: of the kernels that are new, it is the one whose code is most like that, if the edit goes into it without
a conflict and what other files call stays. Whether the result is right, its reference has to prove.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from longhand.emit.unit.contract import find_breaches
from longhand.emit.unit.on_disk import UnitOnDisk
from longhand.emit.unit.prose import code_lines
from longhand.emit.unit.threeway import merge

_LEAST_LIKE = 0.5  # of the lines of code: what git calls a rename


@dataclasses.dataclass(frozen=True)
class Move:
    """An edited kernel's way into the file of another.

    Attributes:
        source: The old file.
        target: The new one.
        text: The new one's text with the edit.
    """

    source: str
    target: str
    text: str


def find_moves(disk: UnitOnDisk, edited: Iterable[str], new: Mapping[str, str]) -> list[Move]:
    """Where edits of kernels go that the new version does not have; those that fit nowhere are not among them.

    Args:
        disk: The unit as it was.
        edited: The edited files whose kernels are gone.
        new: The files of the kernels that are new, by path.
    """
    moves: list[Move] = []
    taken: set[str] = set()
    for paths in _by_stem(edited).values():
        candidates = [
            found
            for other in _by_stem(new)
            if other not in taken and (found := _moved(disk, paths, other, new))
        ]
        if candidates:
            _, best = max(candidates, key=lambda entry: entry[0])
            moves += best
            taken.add(PurePosixPath(best[0].target).stem)
    return moves


def _by_stem(paths: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(paths):
        found.setdefault(PurePosixPath(path).stem, []).append(path)
    return found


def _moved(
    disk: UnitOnDisk, paths: list[str], other: str, new: Mapping[str, str]
) -> tuple[float, list[Move]] | None:
    """How like another kernel is to this one, and the edits in it; None if they do not fit."""
    likeness, moves = [], []
    for path in paths:
        pure = PurePosixPath(path)
        target, name = str(pure.with_stem(other)), pure.stem
        bases = disk.bases(path)
        if target not in new or not bases:
            return None
        try:
            ours, base = (_renamed(text.decode(), name, other) for text in (disk.files[path], bases[0]))
        except UnicodeDecodeError:
            return None
        merged = merge(ours, base, new[target])
        if merged.conflicts or find_breaches({target: merged.text}, {target: new[target]}):
            return None
        matcher = difflib.SequenceMatcher(None, code_lines(base), code_lines(new[target]), autojunk=False)
        likeness.append(matcher.ratio())
        moves.append(Move(path, target, merged.text))
    return (min(likeness), moves) if min(likeness) >= _LEAST_LIKE else None


def _renamed(text: str, name: str, other: str) -> str:
    """The text with the kernel's own name, and that of its Triton function, changed: not `F.gelu`."""
    return re.sub(rf"(?<![\w.]){re.escape(name)}(?=\b|_kernel\b)", other, text)


def tuned_at_home(
    tuned: Mapping[str, Mapping[str, int]], moves: Iterable[Move]
) -> dict[str, Mapping[str, int]]:
    """What `longhand tune` set, by the files where it is now."""
    homes = {move.source: move.target for move in moves}
    return {homes.get(path, path): values for path, values in tuned.items()}
