"""A unit's folder as it was found: its files, what longhand wrote, and both sides of what git left markers in."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from longhand.emit.lock import LOCK
from longhand.emit.lock_schema import parsed

BASE = ".base"
ASIDE = "kernels/aside"
NEW = ".new"


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


def edits(files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes, bytes]]:
    """(path, text as written, text as it is) for each file that somebody edited."""
    disk = UnitOnDisk.of(files)
    for path in sorted(files):
        if path.startswith(f"{BASE}/") or path in (LOCK,) or not disk.is_edited(path):
            continue
        bases = disk.bases(path)
        if bases:
            yield path, bases[0], files[path]
