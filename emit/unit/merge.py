"""Decides, file by file, what becomes of a unit on disk when a new version of it is generated.

What nobody edited is replaced. What somebody edited is kept, merged with the new text by way of `.base/` (the text as
longhand last wrote it), or set aside where the new version has no such file, nor the kernel under another name. If one
file conflicts, the whole unit stays the old version, which runs, and the new text stands beside the file as
``FILE.new``. To settle it, bring FILE up to date, delete FILE.new, and generate again: FILE then counts as an edit of
that new text. On request both stand in FILE instead, between git's markers, and the unit runs when they are gone.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Set
from pathlib import PurePath, PurePosixPath

from longhand.emit.unit.contract import Breach, Move, find_breaches, find_moves, has_markers, tuned_at_home
from longhand.emit.unit.lock_file import LOCK, lock_text
from longhand.emit.unit.on_disk import ASIDE, BASE, NEW, UnitOnDisk
from longhand.emit.unit.threeway import (
    Conflict,
    ConflictStyle,
    FileReport,
    MergePlan,
    MergeReport,
    Outcome,
    merge,
    with_new_prose,
)
from longhand.errors import EditError

_QUOTE = re.compile(r"^(?://)? +([\w.]+    \S.*)$", re.MULTILINE)  # Mlp.forward    hidden = F.gelu(x)


def plan_merge(
    disk: UnitOnDisk,
    new: Mapping[str, bytes],
    style: ConflictStyle = ConflictStyle.BESIDE,
    *,
    staying: Set[str] = frozenset(),
) -> MergePlan:
    """What becomes of a unit on disk when these files are its next version.

    Args:
        disk: The unit as it is.
        new: Its next version.
        style: What is put where both sides changed the same lines.
        staying: Edited files that are set aside though a new kernel is like theirs: there the edits are wrong.

    Raises:
        EditError: An edit breaks what the other files rely on: file:line and what.
    """
    return _Merger(disk, new, style, staying).plan()


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
    beside = {path: content for each in reasons for path, content in _beside(each, new[each]).items()}
    return _standstill(disk, files, beside)


def with_problems(plan: MergePlan, problems: Mapping[str, str]) -> MergePlan:
    """The plan with what is wrong with edits that are kept as they are."""
    files = tuple(
        dataclasses.replace(file, problem=problems.get(file.path, file.problem)) for file in plan.report.files
    )
    return dataclasses.replace(plan, report=MergeReport(files))


class _Merger:
    """Collects one plan."""

    def __init__(
        self, disk: UnitOnDisk, new: Mapping[str, bytes], style: ConflictStyle, staying: Set[str]
    ) -> None:
        self.disk = disk
        self.style = style
        self.staying = staying
        self.new = {path: content for path, content in new.items() if not path.startswith(f"{BASE}/")}
        self.all_new = new
        self.contents: dict[str, bytes] = {}
        self.carried: list[str] = []
        self.reports: list[FileReport] = []
        self.returned: set[str] = set()  # set aside once, and now back in their places
        self.questions: dict[str, bytes] = {}  # what is put into the unit for somebody to settle
        self.moves: list[Move] = []

    def plan(self) -> MergePlan:
        for path, content in sorted(self.new.items()):
            if path != LOCK:
                self._decide(path, content)
        if any(file.outcome is Outcome.CONFLICT for file in self.reports):
            return _standstill(self.disk, tuple(self.reports), self.questions)
        self._leave_old()
        if LOCK in self.new:
            self.contents[LOCK] = _with_choices(self.new[LOCK], self.disk, self.moves)
        self._refuse_breaches()
        return MergePlan(self.contents, tuple(self.carried), MergeReport(tuple(self.reports)))

    def _decide(self, path: str, content: bytes) -> None:
        """One file of the new version."""
        current = self.disk.files.get(path)
        base = self.all_new.get(f"{BASE}/{path}")
        if base is not None:
            self.contents[f"{BASE}/{path}"] = base
        if current is not None and path in self.disk.ejected:
            self.carried.append(path)
            self._report(path, Outcome.EJECTED)
        elif current is None:
            self._add(path, content)
        elif current == content:
            self.contents[path] = content
            self._report(path, Outcome.SAME)
        elif not self.disk.is_edited(path):
            self.contents[path] = content
            self._report(path, Outcome.REPLACED)
        elif self._is_still_marked(path, current):
            self._conflict(path, "its markers wait to be settled", is_marked=True)
        else:
            self._merge_edit(path, current, content)

    def _is_still_marked(self, path: str, on_disk: bytes) -> bool:
        """Whether both sides of a conflict stand in a file since an earlier merge."""
        return f"{BASE}/{path}{NEW}" in self.disk.files and has_markers(on_disk.decode(errors="replace"))

    def _merge_edit(self, path: str, on_disk: bytes, content: bytes) -> None:
        """A file that somebody edited, and whose text is or is not new."""
        ours = self._with_settled_prose(path, on_disk)
        if content not in self.disk.bases(path):
            self._merge(path, ours, content)
        elif ours == on_disk:
            self.carried.append(path)
            self._report(path, Outcome.KEPT)
        else:
            self.contents[path] = ours
            self._report(path, Outcome.KEPT, "your edit; the comments that are not yours follow the model")

    def _with_settled_prose(self, path: str, on_disk: bytes) -> bytes:
        """A file that somebody kept against a new version, its prose brought up to that version."""
        before, pending = (self.disk.files.get(f"{BASE}/{path}{end}") for end in ("", NEW))
        is_settled = pending is not None and f"{path}{NEW}" not in self.disk.files
        if before is None or pending is None or not is_settled or _binary(path, on_disk, before, pending):
            return on_disk
        return with_new_prose(on_disk.decode(), before.decode(), pending.decode()).encode()

    def _add(self, path: str, content: bytes) -> None:
        """A file that is not there: new, or deleted by somebody, or set aside by an earlier version."""
        aside = _aside(path)
        edited, bases = self.disk.files.get(aside), self.disk.bases(aside)
        is_text = edited is not None and not _binary(path, edited, *bases)
        if edited is not None and is_text and bases and path.startswith("kernels/"):
            merged = merge(edited.decode(), bases[0].decode(), content.decode())
            if not merged.conflicts:
                self.contents[path] = merged.text.encode()
                self.returned |= {aside, f"{BASE}/{aside}"}
                is_edit = self.contents[path] != content
                detail = f"from {aside}: it is needed again"
                self._report(path, Outcome.MERGED if is_edit else Outcome.NEW, detail if is_edit else "")
                return
        self.contents[path] = content
        self._report(path, Outcome.RESTORED if self.disk.knows(path) else Outcome.NEW)

    def _merge(self, path: str, on_disk: bytes, content: bytes) -> None:
        """An edited file that has new text."""
        unsettled = self.disk.files.get(f"{path}{NEW}")
        if unsettled is not None and unsettled not in (self.disk.files.get(f"{BASE}/{path}{NEW}"), content):
            self._conflict(path, f"{path}{NEW} was edited: move it over {path}, or delete it")
            return
        bases = self.disk.bases(path)
        if _binary(path, on_disk, content, *bases):
            self._conflict(path, "it is not text, and both sides changed it", _beside(path, content))
            return
        if not bases:
            words = f"{BASE}/{path} is missing: nothing says what was edited"
            self._conflict(path, words, _beside(path, content))
            return
        merges = [merge(on_disk.decode(), base.decode(), content.decode()) for base in bases]
        best = min(merges, key=lambda one: len(one.conflicts))
        if best.conflicts:
            is_marked = self.style is ConflictStyle.MARKERS
            marked = {path: best.marked.encode(), f"{BASE}/{path}{NEW}": content}
            put = marked if is_marked else _beside(path, content)
            self._conflict(
                path, "both sides changed the same lines", put, best.conflicts, is_marked=is_marked
            )
        else:
            self.contents[path] = best.text.encode()
            self._report(path, Outcome.MERGED if best.text.encode() != content else Outcome.REPLACED)

    def _conflict(
        self,
        path: str,
        why: str,
        put: Mapping[str, bytes] | None = None,
        conflicts: tuple[Conflict, ...] = (),
        *,
        is_marked: bool = False,
    ) -> None:
        self.questions |= put or {}
        self.reports.append(FileReport(path, Outcome.CONFLICT, why, conflicts, is_marked=is_marked))

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
        self._move(edited)
        moved = {move.source for move in self.moves}
        stems -= {PurePosixPath(path).stem for path in moved}
        for path in going:
            stem = PurePosixPath(path).stem
            if path in self.disk.ejected:
                self.carried.append(path)
                self._report(path, Outcome.EJECTED, "no longer called")
            elif path in moved:
                continue
            elif path in edited or (path.startswith("kernels/") and stem in stems):
                self._set_aside(path, is_edited=path in edited)
            else:
                self._report(path, Outcome.REMOVED)
        settled = {*self.contents, *self.carried, *going, *self.returned, *({LOCK} & self.new.keys())}
        for path in self.disk.files:
            if path in settled or self._is_leftover(path):
                continue
            self.carried.append(path)

    def _move(self, edited: Set[str]) -> None:
        """Edits of kernels that have other names now go there."""
        here = {PurePosixPath(path).stem for path in self.new if path.startswith("kernels/")}
        gone = {
            path
            for path in edited - self.staying
            if path.startswith("kernels/") and PurePosixPath(path).stem not in here
        }
        added = {
            file.path: self.new[file.path].decode()
            for file in self.reports
            if file.outcome is Outcome.NEW and file.path.startswith("kernels/")
        }
        self.moves = find_moves(self.disk, gone, added) if gone else []
        for move in self.moves:
            self.contents[move.target] = move.text.encode()
            self.reports = [file for file in self.reports if file.path != move.target]
            detail = f"your edit of {move.source}, as the kernel is called now"
            self.reports.append(FileReport(move.target, Outcome.MERGED, detail, source=move.source))
            self._report(move.source, Outcome.MOVED, f"your edit is in {move.target} now")

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

    def _report(self, path: str, outcome: Outcome, detail: str = "") -> None:
        self.reports.append(FileReport(path, outcome, detail))

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
        if files != written:
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


def _standstill(disk: UnitOnDisk, files: tuple[FileReport, ...], questions: Mapping[str, bytes]) -> MergePlan:
    """The unit as it is, with what there is to settle of the files that conflict."""
    reports = [file for file in files if file.outcome is Outcome.CONFLICT]
    told = {file.path for file in reports}
    for path in disk.files:
        is_own = path.startswith((f"{BASE}/", f"{ASIDE}/")) or path == LOCK
        if not is_own and path not in told and disk.knows(path) and disk.is_edited(path):
            reports.append(FileReport(path, Outcome.KEPT, "your edit, as it was"))
    answered = {f"{path}{NEW}" for path in questions}  # now between markers
    carried = tuple(path for path in disk.files if path not in questions and path not in answered)
    return MergePlan(questions, carried, MergeReport(tuple(reports)))


def _beside(path: str, content: bytes) -> dict[str, bytes]:
    """A file's new text beside it, and the note that it was put there."""
    return {f"{path}{NEW}": content, f"{BASE}/{path}{NEW}": content}


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


def _with_choices(lock: bytes, disk: UnitOnDisk, moves: list[Move]) -> bytes:
    """The new lock with what the old one says of people's choices: files ejected, tunables tuned."""
    if not disk.ejected and not disk.tuned:
        return lock
    new_lock = json.loads(lock)
    if disk.ejected:
        new_lock["ejected"] = sorted(disk.ejected)
    if disk.tuned:
        new_lock["tuned"] = tuned_at_home(disk.tuned, moves)
    return lock_text(new_lock).encode()
