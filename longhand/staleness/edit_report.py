"""`longhand diff`: what people changed in a unit, per file, against the text as longhand last wrote it."""

from __future__ import annotations

import dataclasses
import difflib
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longhand.emit.unit.lock_file import read_lock
from longhand.emit.unit.lock_schema import LOCK
from longhand.emit.unit.on_disk import edits, lock_versions, read_unit
from longhand.errors import OptionError, UnitError
from longhand.verify.checking import KernelCheck, check_kernels

# A repository's own configuration may name programs to run.
_WRONG, _NOT_RUN = "WRONG", "not run"
_GIT = ("git", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")


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
    return tuple(
        FileEdit(path, _diff(base, text))
        for path, base, text in edits(read_unit(folder, follow_links=False).files)
    )


def kernel_lines(
    folder: Path,
    *,
    since: str | None = None,
    times: Mapping[str, Any] | None = None,
    is_checked: bool = True,
) -> tuple[KernelLine, ...]:
    """A row for each kernel that is edited, new, gone or regenerated.

    Args:
        folder: The unit.
        since: A git revision to compare with; by default only edits are told.
        times: What `bench --json` printed.
        is_checked: Run the edited and the new kernels against their references.
    """
    lock = read_lock(folder)
    before = _lock_at(folder, since) if since else lock
    edited: dict[str, list[FileEdit]] = {}
    for edit in edits_of(folder):
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
        if words:
            changes[name] = ", ".join(words)
    checked = [name for name in changes if name in now] if is_checked else []
    numerics = _numerics(folder, checked)
    return tuple(
        KernelLine(
            name,
            change,
            _traffic(before, name) if name in then else None,
            _traffic(lock, name) if name in now else None,
            numerics.get(name, ""),
            _time(times or {}, name),
        )
        for name, change in changes.items()
    )


def _diff(base: bytes, text: bytes) -> tuple[str, ...]:
    old, new = (content.decode(errors="replace").splitlines() for content in (base, text))
    return tuple(difflib.unified_diff(old, new, lineterm="", n=3))[2:]


def _lock_at(folder: Path, revision: str) -> dict[str, Any]:
    """The unit's lock at a git revision; empty if the unit was not there.

    Raises:
        OptionError: There is no such revision, or no git.
    """
    try:
        subprocess.run(
            [*_GIT, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"],
            cwd=folder,
            check=True,
            capture_output=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise OptionError(f"--since {revision!r}: git knows no such revision here.") from error
    command = [*_GIT, "show", "--no-ext-diff", "--no-textconv", f"{revision}:./{LOCK}"]
    shown = subprocess.run(command, cwd=folder, capture_output=True)
    return next(iter(lock_versions(shown.stdout)), {}) if shown.returncode == 0 else {}


def _hashes(lock: Mapping[str, Any], name: str) -> dict[str, str]:
    return {
        path: digest
        for path, digest in lock.get("hashes", {}).items()
        if Path(path).parent.name == "kernels" and Path(path).stem == name
    }


def _traffic(lock: Mapping[str, Any], name: str) -> tuple[int, int] | None:
    found = lock.get("traffic", {}).get(name)
    return (int(found[0]), int(found[1])) if found else None


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
    found = times.get("kernels", {}).get(name)
    if not found:
        return ""
    text = f"{found['ms']:.4g} ms"
    if found.get("base_ms"):
        text += f" (base {found['base_ms']:.4g} ms)"
    return text
