"""What `longhand check` finds of a unit, and the part of it that the unit's files say by themselves: without torch.

Nothing of the unit or its repository runs for that. Whether its model generates it today is asked in `model_check`.
"""

from __future__ import annotations

import dataclasses
import enum
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longhand.emit.unit.contract import Breach, find_breaches
from longhand.emit.unit.lock_file import LOCK, read_lock, tool_versions
from longhand.emit.unit.on_disk import BASE, NEW, UnitOnDisk, edits, read_unit
from longhand.staleness.load_time import changed_sources, listed_briefly, texts_of


class Staleness(enum.IntEnum):
    """The answer; the value is the exit code."""

    CURRENT = 0
    STALE = 1
    BROKEN = 2
    OTHER_VERSIONS = 3
    UNKNOWN = 4
    WRONG = 5


@dataclasses.dataclass(frozen=True)
class Change:
    """A file that generating again would change.

    Attributes:
        path: Relative to the unit.
        line: Where it would change first, in the file as longhand last wrote it; counted from 1.
        what: In words.
    """

    path: str
    line: int
    what: str


@dataclasses.dataclass(frozen=True, repr=False)
class CheckResult:
    """What `check` found.

    Attributes:
        folder: The unit.
        changes: What generating again would change.
        breaches: Edits that break what other files rely on.
        versions: Tools whose versions differ: ``torch 2.11.0, here 2.13.0``.
        edited: Files that somebody edited.
        sources: Functions of the model that changed since the lock was written, whatever that means for the unit.
        factory: What makes the model; empty if nothing says it.
        is_compared: Whether the model was made and generated again.
        renewal: The command that brings it up to date; empty if nothing says how to make its model.
        verified: What was run: empty if nothing was, else in words.
        not_run: Why it could not be run on this machine, where it was to be; else empty.
        faults: (file, what is wrong) of what was run.
        sizes: At which other sizes it was run.
        is_remembered: Whether the model was compared earlier, and nothing that was read then has changed.
    """

    folder: Path
    changes: tuple[Change, ...]
    breaches: tuple[Breach, ...]
    versions: tuple[str, ...]
    edited: tuple[str, ...]
    sources: tuple[str, ...] = ()
    factory: str = ""
    is_compared: bool = True
    renewal: str = ""
    verified: str = ""
    not_run: str = ""
    faults: tuple[tuple[str, str], ...] = ()
    sizes: tuple[str, ...] = ()
    is_remembered: bool = False

    def __repr__(self) -> str:
        counts = (
            f"{len(self.changes)} changes, {len(self.breaches)} breaches, {len(self.edited)} edited files"
        )
        return f"<CheckResult {self.folder}: {self.staleness.name.lower()}; {counts}>"

    @property
    def staleness(self) -> Staleness:
        """The answer. A broken edit is told first; with other versions nothing can be said about staleness."""
        if self.breaches:
            return Staleness.BROKEN
        if self.faults:
            return Staleness.WRONG
        if not self.changes:
            return Staleness.CURRENT if self.is_compared and not self.not_run else Staleness.UNKNOWN
        return Staleness.OTHER_VERSIONS if self.versions else Staleness.STALE


def check_files(folder: Path) -> CheckResult:
    """Tells of a unit what its files say.

    Raises:
        UnitError: There is no unit.
    """
    lock = read_lock(folder)
    disk = read_unit(folder, follow_links=False)
    changes = list(unsettled(disk))
    if sources := changed_sources(lock, folder):
        changes.append(Change(LOCK, 1, f"{listed_briefly(sources)} changed since it was generated"))
    return CheckResult(
        folder,
        tuple(changes),
        tuple(find_breaches(*texts_of(disk))),
        other_versions(lock),
        tuple(path for path, _, _ in edits(disk.files)),
        tuple(sources),
        str(lock.get("factory") or ""),
        is_compared=False,
        renewal=renewal_of(lock, folder),
    )


def renewal_of(lock: Mapping[str, Any], folder: Path) -> str:
    """The command that brings a unit up to date; empty if nothing says how to make its model."""
    return f"longhand generate {shlex.quote(str(folder))}" if lock.get("factory") else ""


def other_versions(lock: Mapping[str, object]) -> tuple[str, ...]:
    """Tools that the unit was generated with in other versions than those here."""
    then, now = lock.get("versions"), tool_versions()
    if not isinstance(then, dict):
        return ("the lock names no versions",)
    return tuple(
        f"{name} {then[name]}, here {now.get(name, 'none')}"
        for name in sorted(then)
        if then[name] != now.get(name)
    )


def unsettled(disk: UnitOnDisk) -> list[Change]:
    """Conflicts that wait for somebody, and what git left."""
    conflicts = [
        Change(
            path.removeprefix(f"{BASE}/").removesuffix(NEW),
            1,
            f"a conflict waits to be settled in {_question(path.removeprefix(f'{BASE}/'), disk)}",
        )
        for path in sorted(disk.files)
        if path.startswith(f"{BASE}/") and path.endswith(NEW)
    ]
    marked = [path for path in sorted(disk.files) if path == LOCK or path.startswith(f"{BASE}/")]
    for path in marked:
        if b"<<<<<<< " in disk.files[path] and b"\n>>>>>>> " in disk.files[path]:
            conflicts.append(
                Change(path, 1, "git's conflict markers are in it: longhand generate settles them")
            )
            break
    return conflicts


def _question(path: str, disk: UnitOnDisk) -> str:
    """Where a conflict stands: in FILE.new, or between markers in FILE."""
    return path if path in disk.files else path.removesuffix(NEW)
