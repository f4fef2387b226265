"""What changed between two states of a unit: kernels, with the bytes that they move, and lines of files."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable

from longhand.review.unit_content import UnitContent

_MOST_LINES = 3_000


@dataclasses.dataclass(frozen=True)
class FileChange:
    """A file: the lines of a unified diff without their two headers."""

    path: str
    what: str
    lines: tuple[str, ...]
    n_added: int
    n_removed: int


@dataclasses.dataclass(frozen=True)
class KernelChange:
    """A kernel: what became of it, and (calls, bytes) before and after; None where it was not, or is not."""

    name: str
    what: str
    before: tuple[int, int] | None
    after: tuple[int, int] | None


def changed_files(before: UnitContent, after: UnitContent) -> Iterable[FileChange]:
    """Every text that people read and that is not as it was."""
    left = _MOST_LINES
    for path in sorted({*before.texts(), *after.texts()}):
        if before.files.get(path) == after.files.get(path):
            continue
        what = "new" if path not in before.files else "gone" if path not in after.files else "changed"
        lines = list(difflib.unified_diff(before.lines(path), after.lines(path), lineterm="", n=3))[2:]
        n_added = sum(line.startswith("+") for line in lines)
        n_removed = sum(line.startswith("-") for line in lines)
        yield FileChange(path, what, tuple(lines[:left]), n_added, n_removed)
        left = max(0, left - len(lines))


def changed_kernels(before: UnitContent, after: UnitContent) -> Iterable[KernelChange]:
    """Every kernel that is new, gone, written differently, or called for other bytes."""
    old, new = before.lock.get("kernels", {}), after.lock.get("kernels", {})
    for name in sorted({*old, *new}):
        traffic = (_traffic(before, name), _traffic(after, name))
        paths = (f"kernels/{name}.cpp", f"kernels/{name}.py")
        if name not in old:
            what = "new"
        elif name not in new:
            what = "gone"
        elif any(before.files.get(path) != after.files.get(path) for path in paths):
            what = "changed"
        elif traffic[0] != traffic[1]:
            what = "called for other sizes, or not as often"
        else:
            continue
        yield KernelChange(name, what, *traffic)


def _traffic(unit: UnitContent, name: str) -> tuple[int, int] | None:
    traffic = unit.lock.get("traffic", {}).get(name)
    return (int(traffic[0]), int(traffic[1])) if traffic else None
