"""What `explain` found as a picture: a tree of graphs, kernels and breaks with the bytes, as text and for notebooks.

Kernels and their bytes are those of each graph's unit on disk, so a unit that was in the cache has them, too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from longhand.emit.text.quoting import visible
from longhand.emit.unit.lock_file import read_lock
from longhand.errors import LonghandError

_UNITS = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
_WIDEST = 100


@dataclasses.dataclass(frozen=True)
class TreeLine:
    """A line of the tree and what hangs on it.

    Attributes:
        text: The line.
        more: Lines below it, in smaller print.
        branches: What it consists of.
    """

    text: str
    more: tuple[str, ...] = ()
    branches: tuple[TreeLine, ...] = ()


def kernels_in(folder: Path | None) -> tuple[TreeLine, ...]:
    """A branch for each kernel of a unit, and one for what it leaves to libraries; none where there is no unit."""
    lock: Mapping[str, Any] = {}
    if folder is not None:
        with contextlib.suppress(LonghandError, OSError):
            lock = read_lock(folder)
    titles = {entry.get("kernel"): str(entry.get("title", "")) for entry in lock.get("ledger", {}).values()}
    rows = [
        (name, f"{calls} x" if calls > 1 else "", bytes_text(n_bytes), titles.get(name, ""))
        for name, (calls, n_bytes) in lock.get("traffic", {}).items()
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    branches = [
        TreeLine(
            f"{name:<{widths[0]}}  {calls:>{widths[1]}}  {size:>{widths[2]}}  {_short(title, sum(widths))}".rstrip()
        )
        for name, calls, size, title in rows
    ]
    library = _library_calls(lock)
    if library:
        calls = ", ".join(f"{call} x{count}" if count > 1 else call for call, count in library.items())
        branches.append(TreeLine(f"libraries: {calls}"))
    return tuple(branches)


def kernel_bytes(folder: Path | None) -> int:
    """What the kernels of a unit read and write in one call."""
    with contextlib.suppress(LonghandError, OSError):
        return sum(n_bytes for _, n_bytes in read_lock(folder).get("traffic", {}).values()) if folder else 0
    return 0


def bytes_text(n_bytes: int) -> str:
    """``8.39 MB``"""
    return next((f"{n_bytes / size:.3g} {unit}" for unit, size in _UNITS if n_bytes >= size), f"{n_bytes} B")


def tree_text(title: str, branches: Sequence[TreeLine]) -> str:
    """The tree in lines of text."""
    return "\n".join([title, *_lines(branches, "")])


def tree_html(title: str, branches: Sequence[TreeLine]) -> str:
    """The tree for a notebook: lists that fold, nothing that runs."""
    return (
        f'<div style="font-family: monospace; line-height: 1.5"><b>{html.escape(visible(title))}</b>'
        f"{_list(branches, is_open=True)}</div>"
    )


def _lines(branches: Sequence[TreeLine], before: str) -> Iterable[str]:
    for number, branch in enumerate(branches, 1):
        is_last = number == len(branches)
        yield f"{before}{'└─' if is_last else '├─'} {branch.text}"
        below = before + ("   " if is_last else "│  ")
        inner = below + ("│  " if branch.branches else "   ")
        yield from (f"{inner}{line}".rstrip() for line in branch.more)
        yield from _lines(branch.branches, below)


def _list(branches: Sequence[TreeLine], *, is_open: bool) -> str:
    items = []
    for branch in branches:
        text = html.escape(visible(branch.text))
        more = "".join(
            f'<br><small style="white-space: pre-wrap; opacity: .75">{html.escape(visible(line))}</small>'
            for line in branch.more
        )
        inner = _list(branch.branches, is_open=False)
        if inner:
            opened = " open" if is_open else ""
            items.append(f"<li><details{opened}><summary>{text}</summary>{more}{inner}</details></li>")
        else:
            items.append(f'<li><span style="white-space: pre-wrap">{text}</span>{more}</li>')
    return f'<ul style="margin: 0; padding-left: 1.4em">{"".join(items)}</ul>' if items else ""


def _short(title: str, taken: int) -> str:
    room = max(24, _WIDEST - taken)
    return title if len(title) <= room else f"{title[: room - 3]}..."


def _library_calls(lock: Mapping[str, Any]) -> dict[str, int]:
    """How often each library function is called, from the lock's picture."""
    counts: dict[str, int] = {}
    for one in lock.get("picture", {}).get("passes", ()):
        for step in one.get("steps", ()):
            times, inner = (len(step["repeat"]), step.get("steps", ())) if "repeat" in step else (1, (step,))
            for plain in inner:
                if "call" in plain:
                    counts[plain["call"]] = counts.get(plain["call"], 0) + times
    return counts
