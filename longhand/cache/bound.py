"""Keeps the folder of compiled units within a bound, without looking at all of them for each that is made.

A folder may hold thousands of units, whose files take seconds to count. Its size is noted beside them and grows with
each unit made; who finds it over the bound counts all files, removes what was unused for longest, and notes the rest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import shutil
import time
from pathlib import Path
from typing import TextIO

_DEFAULT_LIMIT_MB = 1024
_RECENT = 3600.0  # seconds: a unit used within the hour stays, whatever the bound
_SLACK = 16  # part of the bound that is freed beyond need, or grown into where nothing could be: until the next count
_NOTE = ".lock"


@dataclasses.dataclass(frozen=True)
class _Noted:
    """What the folder's note says.

    Attributes:
        size: Of all units when they were counted, and of those made since, in bytes.
        bound: The size over which they are counted again.
        limit: What LONGHAND_CACHE_LIMIT_MB was then, in bytes.
    """

    size: int
    bound: int
    limit: int


def keep_within_bound(folder: Path, made: Path) -> None:
    """Removes the units unused for longest where the folder is over LONGHAND_CACHE_LIMIT_MB.

    Args:
        folder: Where the units are.
        made: The one that has come.
    """
    limit = int(os.environ.get("LONGHAND_CACHE_LIMIT_MB", _DEFAULT_LIMIT_MB)) * 2**20
    with open(folder / _NOTE, "a+", encoding="ascii", errors="replace") as note:
        try:
            fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return  # another process is at it
        known = _read(note)
        size = known.size + _size_of(made) if known is not None else 0
        if known is None or known.limit != limit or size > known.bound:
            size = _tidy(folder, limit)
            known = _Noted(size, limit if size <= limit else size + limit // _SLACK, limit)
        note.truncate(0)
        note.write(f"{size} {known.bound} {known.limit}\n")


def _read(note: TextIO) -> _Noted | None:
    """None where there is none, or it is damaged."""
    note.seek(0)
    numbers = note.read(200).split()
    return _Noted(*map(int, numbers)) if len(numbers) == 3 and all(map(str.isdecimal, numbers)) else None


def _tidy(folder: Path, limit: int) -> int:
    """Removes what was unused for longest until there is room for more; the size of what stays."""
    units = sorted((_used(path), path) for path in folder.iterdir() if path.is_dir())
    sizes = {path: _size_of(path) for _, path in units}
    total = sum(sizes.values())
    wanted = limit - limit // _SLACK if total > limit else limit
    for used, path in units:
        if total <= wanted:
            break
        if time.time() - used > _RECENT:
            shutil.rmtree(path, ignore_errors=True)
            total -= sizes[path]
    return total


def _used(folder: Path) -> float:
    """When; now, if another process has just removed it."""
    try:
        return folder.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def _size_of(folder: Path) -> int:
    """Of the files that are there: another process may be making or removing some of them."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                size += os.stat(os.path.join(place, name)).st_size
    return size
