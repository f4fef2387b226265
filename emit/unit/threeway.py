"""Merges two versions of a text that come from one base, line by line; and what became of a unit's files by it.

Docstrings and whole-line comments say what the code beside them is: an edited file gets those of the new version.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import enum
import re
from collections.abc import Mapping, Sequence

OURS, _BETWEEN, THEIRS = "<<<<<<<", "=======", ">>>>>>>"  # git's markers
# A tunable: neighbours are independent of each other, so one may change on each side.
_ASSIGNMENT = re.compile(r"\s*(?:(?:static\s+)?constexpr\s+[\w:]+\s+)?(?P<name>[A-Z][A-Z0-9_]*)\s*=[^=]")


@dataclasses.dataclass(frozen=True)
class Conflict:
    """Lines that both sides changed.

    Attributes:
        line: Where they begin in our text, counted from 1.
        base: The lines as they were, without line ends.
        ours: As we have them.
        theirs: As the other side has them.
    """

    line: int
    base: tuple[str, ...]
    ours: tuple[str, ...]
    theirs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Merge:
    """What became of two versions.

    Attributes:
        text: The merged text; where there are conflicts it holds our lines.
        conflicts: None when the merge is clean.
        marked: The merged text with both sides of each conflict between markers, as git writes them.
    """

    text: str
    conflicts: tuple[Conflict, ...]
    marked: str


@dataclasses.dataclass(frozen=True)
class Hunk:
    """Lines begin:end of the base that a side replaced with its own lines start:stop."""

    begin: int
    end: int
    start: int
    stop: int


def merge(ours: str, base: str, theirs: str) -> Merge:
    """Merges what changed from `base` to `theirs` into `ours`; the results have our line ends."""
    has_crlf = "\r\n" in ours and "\r\n" not in base
    our_lines, base_lines, their_lines = (lines_of(text) for text in (ours, base, theirs))
    result: list[str] = []
    marked: list[str] = []
    conflicts: list[Conflict] = []
    done = 0
    for our_hunks, their_hunks in _groups(hunks(base_lines, our_lines), hunks(base_lines, their_lines)):
        begin = min(hunk.begin for hunk in (*our_hunks, *their_hunks))
        end = max(hunk.end for hunk in (*our_hunks, *their_hunks))
        old = base_lines[begin:end]
        mine, start = _side(our_lines, our_hunks, begin, end)
        others, _ = _side(their_lines, their_hunks, begin, end)
        chosen, shown = mine, None
        if their_hunks and mine != others:
            if not our_hunks:
                chosen = others
            elif (both := _merged_tunables(old, mine, others)) is not None:
                chosen = both
            else:
                conflicts.append(Conflict(start + 1, tuple(old), tuple(mine), tuple(others)))
                shown = [f"{OURS} yours", *mine, _BETWEEN, *others, f"{THEIRS} new"]
        result += [*base_lines[done:begin], *chosen]
        marked += [*base_lines[done:begin], *(chosen if shown is None else shown)]
        done = end
    result += base_lines[done:]
    marked += base_lines[done:]
    end_of_line = "\r\n" if has_crlf else "\n"
    text, with_marks = ("".join(f"{line}{end_of_line}" for line in lines) for lines in (result, marked))
    return Merge(text, tuple(conflicts), with_marks)


def changed_lines(base: str, text: str) -> list[tuple[int, str]]:
    """The lines of `text` that are not as in `base`, with their numbers, counted from 1."""
    lines = lines_of(text)
    return [
        (number + 1, lines[number])
        for hunk in hunks(lines_of(base), lines)
        for number in range(hunk.start, hunk.stop)
    ]


def lines_of(text: str) -> list[str]:
    """Without line ends, whatever they are."""
    return text.replace("\r\n", "\n").splitlines()


def hunks(base: Sequence[str], side: Sequence[str]) -> list[Hunk]:
    """What a side changed, in order."""
    matcher = difflib.SequenceMatcher(None, base, side, autojunk=False)
    return [
        Hunk(begin, end, start, stop)
        for tag, begin, end, start, stop in matcher.get_opcodes()
        if tag != "equal"
    ]


def _groups(ours: list[Hunk], theirs: list[Hunk]) -> list[tuple[list[Hunk], list[Hunk]]]:
    """Hunks of both sides that overlap or touch, together; in order."""
    everything = sorted(
        [(hunk, True) for hunk in ours] + [(hunk, False) for hunk in theirs],
        key=lambda entry: (entry[0].begin, entry[0].end),
    )
    groups: list[tuple[list[Hunk], list[Hunk]]] = []
    end = -1
    for hunk, is_ours in everything:
        if hunk.begin > end or not groups:
            groups.append(([], []))
        groups[-1][0 if is_ours else 1].append(hunk)
        end = max(end, hunk.end) if hunk.begin <= end else hunk.end
    return groups


def _side(lines: list[str], hunks: list[Hunk], begin: int, end: int) -> tuple[list[str], int]:
    """A side's lines for begin:end of the base, and where they begin. Without hunks it is not asked for."""
    if not hunks:
        return [], 0
    start = hunks[0].start - (hunks[0].begin - begin)
    stop = hunks[-1].stop + (end - hunks[-1].end)
    return lines[start:stop], start


def _merged_tunables(base: list[str], ours: list[str], theirs: list[str]) -> list[str] | None:
    """Line by line, where all are assignments to the same names in the same order."""
    names = [_name_assigned(line) for line in base]
    if not names or None in names:
        return None
    if names != [_name_assigned(line) for line in ours] or names != [_name_assigned(line) for line in theirs]:
        return None
    merged = []
    for old, mine, other in zip(base, ours, theirs, strict=True):
        if mine != old and other not in (old, mine):
            return None
        merged.append(mine if mine != old else other)
    return merged


def _name_assigned(line: str) -> str | None:
    match = _ASSIGNMENT.match(line)
    return match["name"] if match else None


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


def with_new_prose(ours: str, base: str, theirs: str) -> str:
    """Our text with what `theirs` changed in the prose of `base`, wherever we have that as it was.

    A comment right above a line that we changed counts as ours: it speaks of that line.
    """
    if not (prose := _new_prose(base, theirs)):
        return ours
    return merge(ours, base, prose).text  # where both changed the same lines it has ours


def code_lines(text: str) -> list[str]:
    """The lines that are no prose, and not blank."""
    prose = _prose_lines(text)
    return [line for number, line in enumerate(lines_of(text)) if number not in prose and line.strip()]


def _new_prose(base: str, theirs: str) -> str:
    """The base with those changes of the other side that are of prose alone; empty if there is none."""
    base_lines, their_lines = lines_of(base), lines_of(theirs)
    old, new = _prose_lines(base), _prose_lines(theirs)
    result: list[str] = []
    done = 0
    for hunk in hunks(base_lines, their_lines):
        is_prose = all(
            number in prose or not lines[number].strip()
            for lines, prose, numbers in (
                (base_lines, old, range(hunk.begin, hunk.end)),
                (their_lines, new, range(hunk.start, hunk.stop)),
            )
            for number in numbers
        )
        if is_prose:
            result += [*base_lines[done : hunk.begin], *their_lines[hunk.start : hunk.stop]]
            done = hunk.end
    return "".join(f"{line}\n" for line in [*result, *base_lines[done:]]) if done or result else ""


def _prose_lines(text: str) -> set[int]:
    """The numbers of the lines of prose, counted from 0."""
    line_numbers = {
        number for number, line in enumerate(lines_of(text)) if line.lstrip().startswith(("# ", "//", "#\n"))
    }
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return line_numbers  # C++
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            docstring = node.body[0]
            line_numbers.update(range(docstring.lineno - 1, docstring.end_lineno or docstring.lineno))
    return line_numbers
