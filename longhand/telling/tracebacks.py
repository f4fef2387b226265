"""The traceback that a user's error shows: the user's frames, not longhand's; all of them with LONGHAND_DEBUG=1."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from types import TracebackType

__all__ = ["hide_own_frames"]

_ROOMS = ("capture", "lower", "schedule", "emit", "templates", "longhand")
_GENERATED = ("<longhand entry of ", "<eval_with_key>")


def hide_own_frames(error: BaseException) -> None:
    """Takes the frames of longhand, and of what it generates in memory, out of the exception's tracebacks."""
    if os.environ.get("LONGHAND_DEBUG", "0") not in ("", "0"):
        return
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = _without_own(one.__traceback__)
            waiting += [one.__cause__, one.__context__]


def _without_own(traceback: TracebackType | None) -> TracebackType | None:
    kept = []
    while traceback is not None:
        if not _is_own(traceback.tb_frame.f_code.co_filename):
            kept.append(traceback)
        traceback = traceback.tb_next
    shortened: TracebackType | None = None
    for entry in reversed(kept):
        shortened = TracebackType(shortened, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shortened


@functools.cache
def _folders() -> tuple[str, ...]:
    """Of the rooms: beside the folder `longhand` in a checkout, below it where longhand is installed."""
    here = Path(os.path.abspath(__file__)).parent.parent
    above = (here.parent, here)
    return (str(here) + os.sep, *(str(place / room) + os.sep for place in above for room in _ROOMS))


def _is_own(file: str) -> bool:
    return file.startswith(_GENERATED) or os.path.abspath(file).startswith(_folders())
