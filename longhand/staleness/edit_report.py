"""`longhand diff`: what people changed in a unit, per file, against the text as longhand last wrote it."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from longhand.emit.unit.lock_file import LOCK, lock_versions, read_lock
from longhand.emit.unit.on_disk import edits, read_unit
from longhand.errors import UnitError
from longhand.staleness.revisions import files_at, need_revision
from longhand.verify.checking import KernelCheck, check_kernels

_READ = ("model.py", "backward.py")
_WRONG, _NOT_RUN = "WRONG", "not run"


@dataclasses.dataclass(frozen=True)
class FileEdit:
    """One edited file.

    Attributes:
        path: Relative to the unit.
        lines: A unified diff without its two header lines.
    """

    path: str
    lines: tuple[str, ...]

    @property
    def n_added(self) -> int:
        """Lines that were not there."""
        return sum(line.startswith("+") for line in self.lines)

    @property
    def n_removed(self) -> int:
        """Lines that are gone."""
        return sum(line.startswith("-") for line in self.lines)

    @property
    def first_line(self) -> int:
        """Where the file as it is differs first, counted from 1."""
        number = 1
        for line in self.lines:
            if line.startswith("@@"):
                number = max(1, int(line.split("+")[1].split(" ")[0].split(",")[0]))
            elif line.startswith(" "):
                number += 1
            else:
                break
        return number


@dataclasses.dataclass(frozen=True)
class KernelLine:
    """One row of the summary for a pull request.

    Attributes:
        name: The kernel.
        change: ``new``, ``gone``, ``regenerated``, ``edited +1 -1``; several joined; empty if nothing.
        before: (calls, bytes) in one call of the model before; None if unknown or it was not there.
        after: The same now.
        numerics: What checking it said; empty if it was not checked.
        time: What `bench --json` measured, in words; else empty.
    """

    name: str
    change: str
    before: tuple[int, int] | None
    after: tuple[int, int] | None
    numerics: str
    time: str

    @property
    def is_wrong(self) -> bool:
        """Whether it was run and computes something else, or could not run."""
        return self.numerics.startswith((_WRONG, _NOT_RUN))


def edits_of(folder: Path) -> tuple[FileEdit, ...]:
    """Every file of a unit that somebody edited.

    Raises:
        UnitError: There is no unit.
    """
    read_lock(folder)
    return edits_among(read_unit(folder, follow_links=False).files)


def edits_among(files: Mapping[str, bytes]) -> tuple[FileEdit, ...]:
    """The same of a unit's files by path, ``.base/`` and the lock among them."""
    return tuple(FileEdit(path, _diff(base, text)) for path, base, text in edits(files))


@dataclasses.dataclass(frozen=True)
class UnitReport:
    """What there is to say of a unit in a pull request.

    Attributes:
        lines: A row for each kernel.
        edits: The edits by hand; with a revision those that were not there, or not alike.
        files: (path, lines added, lines removed) of the texts that are no kernels, since the revision.
    """

    lines: tuple[KernelLine, ...]
    edits: tuple[FileEdit, ...]
    files: tuple[tuple[str, int, int], ...] = ()


def report_of(
    folder: Path,
    *,
    since: str | None = None,
    times: Mapping[str, Any] | None = None,
    is_checked: bool = True,
) -> UnitReport:
    """What people edited in a unit; with a revision all that changed since then, and nothing that did not.

    Args:
        folder: The unit.
        since: A git revision to compare with; by default only edits are told.
        times: What `bench --json` printed.
        is_checked: Run the edited and the new kernels against their references.
    """
    lock = read_lock(folder)
    files = read_unit(folder, follow_links=False).files
    edits, before, was = edits_among(files), lock, files
    if since:
        need_revision(folder, since)
        was = files_at(folder, since)
        before = next(iter(lock_versions(was.get(LOCK, b""))), {})
        # What was edited then is edited still: that is no news.
        known = {edit.path: edit.lines for edit in edits_among(was)}
        edits = tuple(edit for edit in edits if known.get(edit.path) != edit.lines)
    changes = _kernel_changes(lock, before, edits, files, was)
    checked = [name for name in changes if name in lock.get("kernels", {})] if is_checked else []
    numerics = _numerics(folder, checked)
    lines = tuple(
        KernelLine(
            name,
            change,
            _traffic(before, name) if name in before.get("kernels", {}) else None,
            _traffic(lock, name) if name in lock.get("kernels", {}) else None,
            numerics.get(name, ""),
            _time(times or {}, name),
        )
        for name, change in changes.items()
    )
    return UnitReport(lines, edits, tuple(_other_changes(files, was)) if since else ())


def _kernel_changes(
    lock: Mapping[str, Any],
    before: Mapping[str, Any],
    edits: tuple[FileEdit, ...],
    files: Mapping[str, bytes],
    was: Mapping[str, bytes],
) -> dict[str, str]:
    """By kernel: what became of it, in words."""
    edited: dict[str, list[FileEdit]] = {}
    for edit in edits:
        path = Path(edit.path)
        if path.parent.name == "kernels" and path.stem != "__init__":
            edited.setdefault(path.stem, []).append(edit)
    now, then = lock.get("kernels", {}), before.get("kernels", {})
    changes: dict[str, str] = {}
    for name in sorted({*now, *then, *edited}):
        words = []
        if name not in now:
            words.append("gone")
        elif name not in then:
            words.append("new")
        elif _hashes(lock, name) != _hashes(before, name):
            words.append("regenerated")
        if name in edited:
            added = sum(edit.n_added for edit in edited[name])
            removed = sum(edit.n_removed for edit in edited[name])
            words.append(f"edited +{added} -{removed}")
        elif name in now and name in then and not words and _texts(files, name) != _texts(was, name):
            words.append("an edit taken back")
        if not words and _traffic(lock, name) != _traffic(before, name):
            words.append("called otherwise")
        if words:
            changes[name] = ", ".join(words)
    return changes


def _texts(files: Mapping[str, bytes], name: str) -> list[bytes | None]:
    return [files.get(f"kernels/{name}{ending}") for ending in (".cpp", ".py")]


def _other_changes(files: Mapping[str, bytes], was: Mapping[str, bytes]) -> Iterator[tuple[str, int, int]]:
    """Of the texts beside the kernels that people read."""
    for path in _READ:
        if files.get(path) != was.get(path):
            lines = _diff(was.get(path, b""), files.get(path, b""))
            edit = FileEdit(path, lines)
            yield path, edit.n_added, edit.n_removed


def _diff(base: bytes, text: bytes) -> tuple[str, ...]:
    old, new = (content.decode(errors="replace").splitlines() for content in (base, text))
    return tuple(difflib.unified_diff(old, new, lineterm="", n=3))[2:]


def _hashes(lock: Mapping[str, Any], name: str) -> dict[str, str]:
    return {
        path: digest
        for path, digest in lock.get("hashes", {}).items()
        if Path(path).parent.name == "kernels" and Path(path).stem == name
    }


def _traffic(lock: Mapping[str, Any], name: str) -> tuple[int, int] | None:
    traffic = lock.get("traffic", {}).get(name)
    return (int(traffic[0]), int(traffic[1])) if traffic else None


def _numerics(folder: Path, names: list[str]) -> dict[str, str]:
    """In words, by kernel."""
    if not names:
        return {}
    try:
        rows = check_kernels(folder, names).kernels
    except UnitError as error:
        return dict.fromkeys(names, f"{_NOT_RUN}: {error.what}")
    return {name: _in_words([row for row in rows if row.name == name]) for name in names}


def _in_words(rows: list[KernelCheck]) -> str:
    wrong = [row for row in rows if not row.is_right]
    if wrong:
        return f"{_WRONG} {wrong[0].mismatch}"
    if not rows:
        return "not called"
    worst = max(rows, key=lambda row: row.error / row.allowed if row.allowed else 0.0)
    return f"ok: error {worst.error:.2g} of {worst.allowed:.2g} allowed"


def _time(times: Mapping[str, Any], name: str) -> str:
    measured = times.get("kernels", {}).get(name)
    if not measured:
        return ""
    text = f"{measured['ms']:.4g} ms"
    if measured.get("base_ms"):
        text += f" (base {measured['base_ms']:.4g} ms)"
    return text
