"""Decides, file by file, what becomes of a unit on disk when a new version of it is generated.

What nobody edited is replaced. What somebody edited is kept, merged with the new text by way of `.base/` (the text as
longhand last wrote it), or set aside where the new version has no such file. If one file conflicts, the whole unit
stays the old version, which runs, and the new text stands beside the file as ``FILE.new``. To settle it, bring FILE
up to date, delete FILE.new, and generate again: FILE then counts as an edit of that new text.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath, PurePosixPath
from typing import Any

from longhand.emit.contract import Breach, find_breaches
from longhand.emit.lock import LOCK, lock_text
from longhand.emit.lock_schema import parsed
from longhand.emit.merge_report import FileReport, MergePlan, MergeReport, Outcome
from longhand.emit.threeway import Conflict, changed_lines, merge
from longhand.errors import EditError

BASE = ".base"
ASIDE = "kernels/aside"
NEW = ".new"
_QUOTE = re.compile(r"^(?://)? +([\w.]+    \S.*)$", re.MULTILINE)  # Mlp.forward    hidden = F.gelu(x)


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


def plan_merge(disk: UnitOnDisk, new: Mapping[str, bytes]) -> MergePlan:
    """What becomes of a unit on disk when these files are its next version.

    Raises:
        EditError: An edit breaks what the other files rely on: file:line and what.
    """
    return _Merger(disk, new).plan()


def with_conflicts(
    plan: MergePlan, disk: UnitOnDisk, new: Mapping[str, bytes], reasons: Mapping[str, str]
) -> MergePlan:
    """The plan when merged files turn out not to compute what they must: the unit stays as it was."""
    files = tuple(
        (
            dataclasses.replace(file, outcome=Outcome.CONFLICT, detail=reasons[file.path])
            if file.path in reasons
            else file
        )
        for file in plan.report.files
    )
    return _standstill(disk, new, files)


def with_problems(plan: MergePlan, problems: Mapping[str, str]) -> MergePlan:
    """The plan with what is wrong with edits that are kept as they are."""
    files = tuple(
        dataclasses.replace(file, problem=problems.get(file.path, file.problem)) for file in plan.report.files
    )
    return dataclasses.replace(plan, report=MergeReport(files))


class _Merger:
    """Collects one plan."""

    def __init__(self, disk: UnitOnDisk, new: Mapping[str, bytes]) -> None:
        self.disk = disk
        self.new = {path: content for path, content in new.items() if not path.startswith(f"{BASE}/")}
        self.all_new = new
        self.contents: dict[str, bytes] = {}
        self.carried: list[str] = []
        self.reports: list[FileReport] = []
        self.returned: set[str] = set()  # set aside once, and now back in their places

    def plan(self) -> MergePlan:
        for path, content in sorted(self.new.items()):
            if path == LOCK:
                self.contents[LOCK] = _with_choices(content, self.disk)
            else:
                self._settle(path, content)
        if any(file.outcome is Outcome.CONFLICT for file in self.reports):
            return _standstill(self.disk, self.all_new, tuple(self.reports))
        self._leave_old()
        self._refuse_breaches()
        return MergePlan(self.contents, tuple(self.carried), MergeReport(tuple(self.reports)))

    def _settle(self, path: str, content: bytes) -> None:
        """One file of the new version."""
        found = self.disk.files.get(path)
        base = self.all_new.get(f"{BASE}/{path}")
        if base is not None:
            self.contents[f"{BASE}/{path}"] = base
        if found is not None and path in self.disk.ejected:
            self.carried.append(path)
            self._report(path, Outcome.EJECTED)
        elif found is None:
            self._add(path, content)
        elif found == content:
            self.contents[path] = content
            self._report(path, Outcome.SAME)
        elif not self.disk.is_edited(path):
            self.contents[path] = content
            self._report(path, Outcome.REPLACED)
        elif content in self.disk.bases(path):
            self.carried.append(path)
            self._report(path, Outcome.KEPT)
        else:
            self._merge(path, found, content)

    def _add(self, path: str, content: bytes) -> None:
        """A file that is not there: new, or deleted by somebody, or set aside by an earlier version."""
        aside = _aside(path)
        edited, bases = self.disk.files.get(aside), self.disk.bases(aside)
        is_text = edited is not None and not _binary(path, edited, *bases)
        if edited is not None and is_text and bases and path.startswith("kernels/"):
            found = merge(edited.decode(), bases[0].decode(), content.decode())
            if not found.conflicts:
                self.contents[path] = found.text.encode()
                self.returned |= {aside, f"{BASE}/{aside}"}
                is_edit = self.contents[path] != content
                detail = f"from {aside}: it is needed again"
                self._report(path, Outcome.MERGED if is_edit else Outcome.NEW, detail if is_edit else "")
                return
        self.contents[path] = content
        self._report(path, Outcome.RESTORED if self.disk.knows(path) else Outcome.NEW)

    def _merge(self, path: str, found: bytes, content: bytes) -> None:
        """An edited file that has new text."""
        unsettled = self.disk.files.get(f"{path}{NEW}")
        if unsettled is not None and unsettled not in (self.disk.files.get(f"{BASE}/{path}{NEW}"), content):
            self._report(path, Outcome.CONFLICT, f"{path}{NEW} was edited: move it over {path}, or delete it")
            return
        bases = self.disk.bases(path)
        if _binary(path, found, content, *bases):
            self._report(path, Outcome.CONFLICT, "it is not text, and both sides changed it")
            return
        if not bases:
            self._report(path, Outcome.CONFLICT, f"{BASE}/{path} is missing: nothing says what was edited")
            return
        merges = [merge(found.decode(), base.decode(), content.decode()) for base in bases]
        best = min(merges, key=lambda one: len(one.conflicts))
        if best.conflicts:
            self._report(path, Outcome.CONFLICT, "both sides changed the same lines", best.conflicts)
        else:
            self.contents[path] = best.text.encode()
            self._report(path, Outcome.MERGED if best.text.encode() != content else Outcome.REPLACED)

    def _leave_old(self) -> None:
        """Files of the old version that the new one does not have."""
        going = [
            path
            for path in self.disk.files
            if path not in self.new
            and not path.startswith((f"{BASE}/", f"{ASIDE}/"))
            and self.disk.knows(path)
        ]
        edited = {path for path in going if self.disk.is_edited(path) and path not in self.disk.ejected}
        stems = {PurePosixPath(path).stem for path in edited if path.startswith("kernels/")}
        for path in going:
            stem = PurePosixPath(path).stem
            if path in self.disk.ejected:
                self.carried.append(path)
                self._report(path, Outcome.EJECTED, "no longer called")
            elif path in edited or (path.startswith("kernels/") and stem in stems):
                self._set_aside(path, is_edited=path in edited)
            else:
                self._report(path, Outcome.REMOVED)
        settled = {*self.contents, *self.carried, *going, *self.returned}
        for path in self.disk.files:
            if path in settled or self._is_leftover(path):
                continue
            self.carried.append(path)

    def _is_leftover(self, path: str) -> bool:
        """What longhand keeps for a version that is gone."""
        if path.startswith(f"{BASE}/"):
            return not path.startswith(f"{BASE}/{ASIDE}/")
        return path.endswith(NEW) and self.disk.files[path] in (
            self.disk.files.get(f"{BASE}/{path}"),
            self.new.get(path.removesuffix(NEW)),
        )

    def _set_aside(self, path: str, *, is_edited: bool) -> None:
        target = _aside(path)
        number = 2
        while self.disk.files.get(target) not in (None, self.disk.files[path]):
            pure = PurePosixPath(_aside(path))
            target = str(pure.with_name(f"{pure.stem}_{number}{pure.suffix}"))
            number += 1
        self.contents[target] = self.disk.files[path]
        bases = self.disk.bases(path)
        if bases:
            self.contents[f"{BASE}/{target}"] = bases[0]
        if is_edited:
            heirs = self._heirs(path)
            detail = f"; see {', '.join(heirs)} instead" if heirs else ""
            self._report(path, Outcome.ASIDE, f"no longer needed{detail}; yours is in {target}")

    def _heirs(self, path: str) -> list[str]:
        """New kernels that quote a statement which the old one quoted: its work is done there."""
        quotes = set(_QUOTE.findall(self.disk.files[path].decode(errors="replace")))
        new = [file.path for file in self.reports if file.outcome is Outcome.NEW]
        return [
            other
            for other in new
            if other.startswith("kernels/")
            and PurePosixPath(other).suffix == PurePosixPath(path).suffix
            and quotes & set(_QUOTE.findall(self.new[other].decode(errors="replace")))
        ]

    def _report(
        self, path: str, outcome: Outcome, detail: str = "", conflicts: tuple[Conflict, ...] = ()
    ) -> None:
        self.reports.append(FileReport(path, outcome, detail, conflicts))

    def _refuse_breaches(self) -> None:
        written = {
            path: content.decode()
            for path, content in self.new.items()
            if not path.endswith(".pt") and path != LOCK
        }
        files = {
            path: (self.contents[path] if path in self.contents else self.disk.files[path]).decode(
                errors="replace"
            )
            for path in written
            if path in self.contents or path in self.carried
        }
        refuse(find_breaches(files, written))


def refuse(breaches: list[Breach], folder: PurePath | str = "") -> None:
    """Raises EditError for the first breach in a unit's folder, with the others behind it."""
    if breaches:
        first = breaches[0]
        more = f" And {len(breaches) - 1} more: {'; '.join(map(str, breaches[1:4]))}." if breaches[1:] else ""
        raise EditError(
            f"{first.what}.{more}",
            where=str(PurePosixPath(folder, f"{first.path}:{first.line}")),
            hint="Nothing was changed on disk. Mend the edit, or delete the file to have it written anew.",
        )


def _standstill(disk: UnitOnDisk, new: Mapping[str, bytes], files: tuple[FileReport, ...]) -> MergePlan:
    """The unit as it is, with the new text beside the files that conflict."""
    contents: dict[str, bytes] = {}
    reports = []
    for file in files:
        if file.outcome is not Outcome.CONFLICT:
            continue
        reports.append(file)
        if "was edited" not in file.detail:
            contents[f"{file.path}{NEW}"] = new[file.path]
            contents[f"{BASE}/{file.path}{NEW}"] = new[file.path]
    told = {file.path for file in reports}
    for path in disk.files:
        is_own = path.startswith((f"{BASE}/", f"{ASIDE}/")) or path == LOCK
        if not is_own and path not in told and disk.knows(path) and disk.is_edited(path):
            reports.append(FileReport(path, Outcome.KEPT, "your edit, as it was"))
    carried = tuple(path for path in disk.files if path not in contents)
    return MergePlan(contents, carried, MergeReport(tuple(reports)))


def _aside(path: str) -> str:
    return f"{ASIDE}/{PurePosixPath(path).name}"


def _binary(path: str, *contents: bytes) -> bool:
    if path.endswith(".pt"):
        return True
    try:
        for content in contents:
            content.decode()
    except UnicodeDecodeError:
        return True
    return False


def _with_choices(lock: bytes, disk: UnitOnDisk) -> bytes:
    """The new lock with what the old one says of people's choices: files ejected, tunables tuned."""
    if not disk.ejected and not disk.tuned:
        return lock
    found = json.loads(lock)
    if disk.ejected:
        found["ejected"] = sorted(disk.ejected)
    if disk.tuned:
        found["tuned"] = disk.tuned
    return lock_text(found).encode()


def edits(files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes, bytes]]:
    """(path, text as written, text as it is) for each file that somebody edited."""
    disk = UnitOnDisk.of(files)
    for path in sorted(files):
        if path.startswith(f"{BASE}/") or path in (LOCK,) or not disk.is_edited(path):
            continue
        bases = disk.bases(path)
        if bases:
            yield path, bases[0], files[path]


def edited_lines(base: bytes, text: bytes) -> int:
    """How many lines of a text are not as in the base."""
    return len(changed_lines(base.decode(errors="replace"), text.decode(errors="replace")))
