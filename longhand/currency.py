"""`longhand check`: is a unit what its model generates today? No GPU is needed, and nothing is written."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from longhand.capture.graph import CapturedGraph
from longhand.clock import Clock
from longhand.doors import capture_call
from longhand.emit.contract import Breach, find_breaches
from longhand.emit.cpp_syntax import syntax_errors
from longhand.emit.lock import LOCK, tool_versions
from longhand.emit.threeway import changed_lines
from longhand.emit.unit_on_disk import ASIDE, BASE, NEW, UnitOnDisk, edits
from longhand.emit.writer import read_unit
from longhand.factory import dynamic_shapes, resolve
from longhand.freshness import changed_sources, listed_briefly, texts_of
from longhand.original import SEED, read_lock
from longhand.pipeline import plan_and_text
from longhand.proof.fallbacks import torch_kernels_of
from longhand.renewal import command_of, options_of


class Currency(enum.IntEnum):
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

    def __repr__(self) -> str:
        found = f"{len(self.changes)} changes, {len(self.breaches)} breaches, {len(self.edited)} edited files"
        return f"<CheckResult {self.folder}: {self.currency.name.lower()}; {found}>"

    @property
    def currency(self) -> Currency:
        """The answer. A broken edit is told first; with other versions nothing can be said about staleness."""
        if self.breaches:
            return Currency.BROKEN
        if self.faults:
            return Currency.WRONG
        if not self.changes:
            return Currency.CURRENT if self.is_compared and not self.not_run else Currency.UNKNOWN
        return Currency.OTHER_VERSIONS if self.versions else Currency.STALE


def check(folder: Path, factory: str | None = None, *, is_trusted: bool = True) -> CheckResult:
    """Compares a unit with what its model generates today.

    Args:
        folder: The unit.
        factory: ``MODULE:FACTORY``; by default the one that the lock names.
        is_trusted: Import the model and ask the compiler. Otherwise nothing of the unit or its repository runs: only
            what its files say by themselves is told.

    Raises:
        UnitError: There is no unit, or it does not say how to make its model.
        FactoryError: The model cannot be made.
    """
    lock = read_lock(folder)
    disk = read_unit(folder, follow_links=is_trusted)
    breaches = broken_edits(folder, disk) if is_trusted else find_breaches(*texts_of(disk))
    changes = list(_unsettled(disk))
    sources = changed_sources(lock, folder)
    if not is_trusted and sources:
        changes.append(Change(LOCK, 1, f"{listed_briefly(sources)} changed since it was generated"))
    if not breaches and is_trusted:
        new = regenerated(folder, factory)
        changes += _changes(disk, new)
        changes += _merged_ledger(lock, new) if not changes else []
    edited = tuple(path for path, _, _ in edits(disk.files))
    return CheckResult(
        folder,
        tuple(changes),
        tuple(breaches),
        other_versions(lock),
        edited,
        tuple(sources),
        factory or str(lock.get("factory") or ""),
        is_trusted,
        _renewal(lock, folder, factory),
    )


def _renewal(lock: Mapping[str, Any], folder: Path, factory: str | None) -> str:
    if factory is None:
        return f"longhand generate {shlex.quote(str(folder))}" if lock.get("factory") else ""
    return command_of(options_of(lock, folder, factory), folder)


def broken_edits(folder: Path, disk: UnitOnDisk | None = None) -> list[Breach]:
    """Edits that break what the unit's other files rely on, found without running anything."""
    disk = disk or read_unit(folder)
    files, written = texts_of(disk)
    breaches = find_breaches(files, written)
    broken = {breach.path for breach in breaches}
    edited = [path for path in written if path in files and files[path] != written[path]]
    kernels = {Path(path).stem for path in edited if path.endswith(".cpp") and path not in broken}
    if any(path.endswith(".h") for path in edited):
        kernels |= {Path(path).stem for path in written if path.endswith(".cpp") and path not in broken}
    return breaches + syntax_errors(folder.resolve(), sorted(kernels))


def regenerated(folder: Path, factory: str | None = None) -> dict[str, bytes]:
    """The files that the unit's model generates today, with the unit's own names."""
    lock = read_lock(folder)
    options = options_of(lock, folder, factory)
    assert options.factory is not None
    torch.manual_seed(SEED)
    call = resolve(options.factory, options.inputs)

    def capture() -> CapturedGraph:
        shapes = dynamic_shapes(call, options.dynamic)
        return capture_call(call.model, call.args, call.kwargs, options, shapes)

    _, _, files = plan_and_text(capture, options, folder, Clock(), torch_kernels_of(lock))
    return {
        path: content if isinstance(content, bytes) else content.encode() for path, content in files.items()
    }


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


def _unsettled(disk: UnitOnDisk) -> list[Change]:
    """Conflicts that wait for somebody, and what git left."""
    found = [
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
            found.append(Change(path, 1, "git's conflict markers are in it: longhand generate settles them"))
            break
    return found


def _question(path: str, disk: UnitOnDisk) -> str:
    """Where a conflict stands: in FILE.new, or between markers in FILE."""
    return path if path in disk.files else path.removesuffix(NEW)


def _merged_ledger(lock: Mapping[str, Any], new: Mapping[str, bytes]) -> list[Change]:
    """A lock that is no longer what goes with its files: git merged two, and longhand has not looked at that yet."""
    today = json.loads(new[LOCK])
    for entry in ("kernels", "hashes", "ledger"):
        if lock.get(entry) != today[entry]:
            return [
                Change(LOCK, 1, f"its {entry} are not those of the unit: longhand generate settles a merge")
            ]
    return []


def _changes(disk: UnitOnDisk, new: Mapping[str, bytes]) -> list[Change]:
    found = []
    for path in sorted(new):
        if path == LOCK or path.startswith(f"{BASE}/"):
            continue
        base = disk.files.get(f"{BASE}/{path}")
        if path.endswith(".pt"):
            digest = hashlib.sha256(new[path]).hexdigest()
            if digest not in disk.hashes.get(path, ()):
                found.append(Change(path, 1, "its tensors differ"))
        elif base is None:
            found.append(Change(path, 1, "would be new"))
        elif base.replace(b"\r\n", b"\n") != new[path]:  # git may give text the line ends of a machine
            old_text, new_text = base.decode(errors="replace"), new[path].decode()
            there = changed_lines(new_text, old_text)
            here = changed_lines(old_text, new_text)
            n_lines = max(len(there), len(here))
            line = there[0][0] if there else here[0][0]
            found.append(Change(path, line, f"{n_lines} line{'s' * (n_lines != 1)} would change"))
    old = {path.removeprefix(f"{BASE}/") for path in disk.files if path.startswith(f"{BASE}/")}
    for path in sorted(old - set(new)):
        if not path.endswith(NEW) and not path.startswith(f"{ASIDE}/"):
            found.append(Change(path, 1, "is no longer needed"))
    return found
