"""What became of a unit's files when a new version of it was merged in."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from longhand.emit.unit.threeway import Conflict


class Outcome(enum.Enum):
    """What became of one file."""

    SAME = "same"
    NEW = "new"
    REPLACED = "replaced"
    KEPT = "kept"
    MERGED = "merged"
    CONFLICT = "conflict"
    ASIDE = "aside"
    RESTORED = "restored"
    EJECTED = "ejected"
    REMOVED = "removed"
    MOVED = "moved"


class ConflictStyle(enum.Enum):
    """What is put into the unit where both sides changed the same lines."""

    BESIDE = "new"  # the new text, as FILE.new beside the file
    MARKERS = "merge"  # both sides in the file, between markers, as git writes them


@dataclasses.dataclass(frozen=True)
class FileReport:
    """What became of one file, and why.

    Attributes:
        path: Relative to the unit.
        outcome: In a word.
        detail: More of it: where it went, why it conflicts; else empty.
        conflicts: The lines that both sides changed.
        problem: What is wrong with an edit that was kept, else empty.
        source: The file that the edit was in before, where its kernel has another name now; else empty.
        is_marked: Whether the conflict stands in the file itself, between markers.
    """

    path: str
    outcome: Outcome
    detail: str = ""
    conflicts: tuple[Conflict, ...] = ()
    problem: str = ""
    source: str = ""
    is_marked: bool = False

    @property
    def is_unsettled(self) -> bool:
        """Whether somebody has to decide, or to mend what was kept."""
        return self.outcome is Outcome.CONFLICT or bool(self.problem)


@dataclasses.dataclass(frozen=True)
class MergeReport:
    """What `write_unit` did, file by file."""

    files: tuple[FileReport, ...]

    def of(self, *outcomes: Outcome) -> tuple[str, ...]:
        """The paths with one of these outcomes."""
        return tuple(file.path for file in self.files if file.outcome in outcomes)

    @property
    def has_conflicts(self) -> bool:
        """Whether the unit stayed as it was because somebody has to decide."""
        return any(file.outcome is Outcome.CONFLICT for file in self.files)

    @property
    def has_markers(self) -> bool:
        """Whether a file holds both sides of a conflict, so that the unit does not run until it is settled."""
        return any(file.is_marked for file in self.files)

    @property
    def is_good(self) -> bool:
        """Whether nothing is left to do."""
        return not any(file.is_unsettled for file in self.files)


@dataclasses.dataclass(frozen=True)
class MergePlan:
    """What the folder shall hold.

    Attributes:
        contents: New bytes by path.
        carried: Old files that stay as they are.
        report: What that means for each file.
    """

    contents: Mapping[str, bytes]
    carried: tuple[str, ...]
    report: MergeReport
