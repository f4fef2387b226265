"""What commands found at lines of files, one kind of thing whatever the command: for SARIF and for annotations."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from longhand.emit.unit.lock_file import LOCK
from longhand.staleness.file_check import CheckResult, Staleness

if TYPE_CHECKING:
    # They import torch, which `check` may do without.
    from longhand.capture.bytecode.entry.breaks import BreakRecord
    from longhand.compiled.parts import Parts
    from longhand.handoff.acceptance import Judgement
    from longhand.staleness.edit_report import FileEdit, KernelLine
    from longhand.telling.explanation import Break, Explanation
    from longhand.telling.summary import Summary
    from longhand.verify.verification import Verification


class Level(enum.Enum):
    """How grave a finding is: SARIF's words."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Rule(enum.Enum):
    """What kind of thing was found: its id, its level, and what it means."""

    BROKEN_EDIT = ("broken-edit", Level.ERROR, "An edit breaks what other files of the unit rely on.")
    WRONG = ("wrong", Level.ERROR, "The unit computes something else than its model, or does not run.")
    STALE = ("stale", Level.ERROR, "The model generates something else today.")
    CONFLICT = ("conflict", Level.ERROR, "An edit and the new version do not go together.")
    REFUSED = (
        "refused",
        Level.ERROR,
        "An edit that was handed in is wrong, or not faster by more than the noise.",
    )
    OTHER_VERSIONS = (
        "other-versions",
        Level.WARNING,
        "Longhand or a tool has another version here, and what it writes differs.",
    )
    GRAPH_BREAK = ("graph-break", Level.WARNING, "The code is cut here: what it does cannot be in one graph.")
    IN_TORCH = ("in-torch", Level.WARNING, "A kernel is PyTorch calls instead of generated code.")
    NOT_RUN = ("not-run", Level.NOTE, "The unit could not be run on this machine.")
    EDITED = ("edited", Level.NOTE, "Somebody edited what longhand wrote.")
    ACCEPTED = ("accepted", Level.NOTE, "An edit that was handed in is right and faster.")

    def __init__(self, name: str, level: Level, meaning: str) -> None:
        self.id = name
        self.level = level
        self.meaning = meaning


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing at one place.

    Attributes:
        rule: Its kind.
        path: The file.
        line: Counted from 1.
        text: What is told of it.
    """

    rule: Rule
    path: Path
    line: int
    text: str


def of_check(result: CheckResult) -> Iterator[Finding]:
    """What `check` found of one unit."""
    folder = result.folder
    for breach in result.breaches:
        yield Finding(Rule.BROKEN_EDIT, folder / breach.path, breach.line, breach.what)
    for path, what in result.faults:
        yield Finding(Rule.WRONG, folder / path, 1, what)
    if result.not_run:
        yield Finding(Rule.NOT_RUN, folder / LOCK, 1, result.not_run)
    has_others = result.staleness is Staleness.OTHER_VERSIONS
    rule = Rule.OTHER_VERSIONS if has_others else Rule.STALE
    renewal = f". Bring it up to date: {result.renewal}" if result.renewal and not has_others else ""
    for change in result.changes:
        yield Finding(rule, folder / change.path, change.line, f"{change.what}{renewal}")
    if has_others:
        yield Finding(rule, folder / LOCK, 1, "; ".join(result.versions))


def of_verification(folder: Path, result: Verification) -> Iterator[Finding]:
    """What `verify` found wrong: at the kernel's file, at model.py where it is the whole."""
    for kernel in result.kernels:
        if not kernel.is_right:
            at = f" at {kernel.at}" if kernel.at else ""
            size = f"an error of {kernel.error:.2e}, and {kernel.allowed:.2e} is allowed"
            text = f"{kernel.name}{at}: {kernel.mismatch or size}"
            yield Finding(Rule.WRONG, _file_of(folder, kernel.name), 1, text)
    for one in result.whole:
        if not one.is_right:
            size = f"an error of {one.error:.2e}, and {one.bound:.2e} is allowed"
            text = f"{one.name}: {one.mismatch or size} {one.note}".strip()
            yield Finding(Rule.WRONG, folder / "model.py", 1, text)
    if result.stale:
        yield Finding(Rule.STALE, folder / LOCK, 1, result.stale)


def of_edits(folder: Path, edits: Iterable[FileEdit], lines: Iterable[KernelLine]) -> Iterator[Finding]:
    """What `diff` tells: each file that somebody edited, and each kernel that was run and is wrong."""
    for line in lines:
        if line.is_wrong:
            yield Finding(Rule.WRONG, _file_of(folder, line.name), 1, f"{line.name}: {line.numerics}")
    for edit in edits:
        text = f"edited by hand: {edit.n_added} lines added, {edit.n_removed} removed"
        yield Finding(Rule.EDITED, folder / edit.path, edit.first_line, text)


def of_judgements(folder: Path, judged: Iterable[Judgement]) -> Iterator[Finding]:
    """What `accept` decided, at the kernels' files in the folder that was handed in."""
    for one in judged:
        rule = Rule.REFUSED if one.refusal else Rule.ACCEPTED
        yield Finding(rule, _file_of(folder, one.kernel), 1, str(one))


def of_explanation(explanation: Explanation) -> Iterator[Finding]:
    """What `explain` found: breaks, at the user's lines."""
    yield from _of_breaks(explanation.breaks)


def of_parts(parts: Parts) -> Iterator[Finding]:
    """Why a call that `generate` wrote is several units."""
    yield from _of_breaks(parts.breaks)


def of_summary(made: Summary) -> Iterator[Finding]:
    """What `generate` could not settle: conflicts with edits, kernels that became PyTorch calls."""
    for kernel in made.in_torch:
        text = f"{kernel} is PyTorch calls: it does not compile or is wrong, which is a bug in longhand"
        yield Finding(Rule.IN_TORCH, made.out / "model.py", 1, text)
    for file in made.merge.files:
        if file.is_unsettled:
            line = file.conflicts[0].line if file.conflicts else 1
            text = file.problem or file.detail or file.outcome.value
            yield Finding(Rule.CONFLICT, made.out / file.path, line, text)


def _of_breaks(breaks: Iterable[Break | BreakRecord]) -> Iterator[Finding]:
    for one in breaks:
        file, _, line = one.where.rpartition(":")
        if file and line.isdigit():
            yield Finding(
                Rule.GRAPH_BREAK,
                Path(file),
                int(line),
                f"{one.reason}. {one.hint}" if one.hint else one.reason,
            )


def _file_of(folder: Path, kernel: str) -> Path:
    """A kernel's file, the C++ one where it has two; model.py for what is no kernel."""
    for suffix in (".cpp", ".py"):
        path = folder / "kernels" / f"{kernel}{suffix}"
        if path.is_file():
            return path
    return folder / "model.py"
