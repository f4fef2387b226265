"""A unit's folder as it was found: its files, what longhand wrote, and both sides of what git left markers in."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from longhand.emit.unit.lock_schema import LOCK, parsed
from longhand.emit.unit.reading import leaves, read_regular
from longhand.errors import OutputError

BASE = ".base"
ASIDE = "kernels/aside"
NEW = ".new"
BESIDE = ".longhand-"  # .NAME.longhand-0123456789abcdef is NAME before it is renamed
_NOT_CARRIED = frozenset({"__pycache__"})


@dataclasses.dataclass(frozen=True)
class UnitOnDisk:
    """A unit's files as found, with what git may have done to them.

    Attributes:
        files: Bytes by path, `.base/` included.
        hashes: What the lock says of each file that longhand wrote.
        ejected: Files that are no longer longhand's.
        tuned: The tunables that `longhand tune` set, by file.
    """

    files: Mapping[str, bytes]
    hashes: Mapping[str, tuple[str, ...]]
    ejected: frozenset[str]
    tuned: Mapping[str, Mapping[str, int]]

    @staticmethod
    def of(files: Mapping[str, bytes]) -> UnitOnDisk:
        """Reads the lock among the files; both sides of it where git left conflict markers."""
        hashes: dict[str, tuple[str, ...]] = {}
        ejected: set[str] = set()
        tuned: dict[str, dict[str, int]] = {}
        for lock in lock_versions(files.get(LOCK, b"")):
            for path, digest in lock.get("hashes", {}).items():
                hashes[path] = (*hashes.get(path, ()), str(digest))
            ejected.update(lock.get("ejected", ()))
            for path, values in lock.get("tuned", {}).items():
                tuned[path] = {**values, **tuned.get(path, {})}
        return UnitOnDisk(files, hashes, frozenset(ejected), tuned)

    def bases(self, path: str) -> list[bytes]:
        """The texts that an edit of a file may have started from; several after a git merge left markers."""
        pending = self.files.get(f"{BASE}/{path}{NEW}")
        if pending is not None and f"{path}{NEW}" not in self.files:
            return [pending]
        base = self.files.get(f"{BASE}/{path}")
        return [] if base is None else sides(base)

    def is_edited(self, path: str) -> bool:
        """Whether a file is there and not as longhand last wrote it."""
        found = self.files.get(path)
        if found is None:
            return False
        bases = self.bases(path)
        if all(side in bases for side in sides(found)):
            return False
        return hashlib.sha256(found).hexdigest() not in self.hashes.get(path, ())

    def knows(self, path: str) -> bool:
        """Whether longhand wrote a file of this name."""
        return path in self.hashes or f"{BASE}/{path}" in self.files


def sides(content: bytes) -> list[bytes]:
    """A text as it is, or both of its sides where git's conflict markers stand in it."""
    if b"<<<<<<< " not in content:
        return [content]
    ours: list[bytes] = []
    theirs: list[bytes] = []
    waiting: list[bytes] = []
    here = [ours, theirs]  # whose the line is
    for line in content.splitlines(keepends=True):
        mark = line[:7] if line[7:8] in (b" ", b"\n", b"\r", b"") else b""
        if mark == b"<<<<<<<" and len(here) == 2:
            here, waiting = [ours], [b"|||||||", b"=======", b">>>>>>>"]
        elif mark in waiting:
            waiting = waiting[waiting.index(mark) + 1 :]
            here = {b"|||||||": [], b"=======": [theirs], b">>>>>>>": [ours, theirs]}[mark]
        else:
            for side in here:
                side.append(line)
    if waiting or ours == theirs:
        return [content]
    return [b"".join(ours), b"".join(theirs)]


def lock_versions(content: bytes) -> list[dict[str, Any]]:
    """The lock as JSON; both sides of it where git left conflict markers; nothing where it cannot be read.

    Raises:
        UnitError: It is of a later longhand's format.
    """
    found = []
    for side in sides(content):
        with contextlib.suppress(ValueError):
            found.append(parsed(side))
    return found


def read_unit(out: Path, *, follow_links: bool = True) -> UnitOnDisk:
    """A unit's files; none where there is no folder.

    Args:
        out: The folder.
        follow_links: Otherwise what a link leads to outside of the folder counts as empty: it is not the unit's.

    Raises:
        OutputError: One cannot be read.
        UnitError: One is no regular file, or too long to be a unit's.
    """
    found = {}
    for path in files_in(out):
        content = content_of(out / path) if follow_links or not leaves(out / path, out) else b""
        if content is None and not (out / path).is_symlink():
            raise OutputError(f"{out / path} cannot be read.", hint="Nothing was changed.")
        found[path] = content or b""  # a link to a folder, or to nothing, is carried as it is
    return UnitOnDisk.of(found)


def is_beside(name: str) -> bool:
    """Whether a file is what a process that writes, or was killed, keeps for a moment: no part of the unit."""
    return re.fullmatch(rf"\..+{re.escape(BESIDE)}[0-9a-f]{{16}}", name) is not None


def files_in(out: Path) -> dict[str, None]:
    """Every file (and symbolic link) of a unit, as relative paths."""
    found: dict[str, None] = {}
    for folder, folders, names in os.walk(out):
        folders[:] = sorted(name for name in folders if name not in _NOT_CARRIED)
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted(name for name in [*names, *links] if not is_beside(name)):
            found[Path(folder, name).relative_to(out).as_posix()] = None
    return found


def content_of(path: Path) -> bytes | None:
    """A file's bytes; None of a folder, and of what cannot be read."""
    if path.is_dir():
        return None
    try:
        return read_regular(path)
    except OSError:
        return None


def edits(files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes, bytes]]:
    """(path, text as written, text as it is) for each file that somebody edited."""
    disk = UnitOnDisk.of(files)
    for path in sorted(files):
        if path.startswith(f"{BASE}/") or path in (LOCK,) or not disk.is_edited(path):
            continue
        bases = disk.bases(path)
        if bases:
            yield path, bases[0], files[path]
