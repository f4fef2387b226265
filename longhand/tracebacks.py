"""The traceback that a user's error shows: the user's frames, not longhand's; all of them with LONGHAND_DEBUG=1."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from types import TracebackType

__all__ = ["without_own_frames"]

_ROOMS = ("capture", "lower", "schedule", "emit", "templates", "longhand")
_GENERATED = ("<longhand entry of ", "<eval_with_key>")


def without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The same traceback without the frames of longhand and of what it generates in memory."""
    if os.environ.get("LONGHAND_DEBUG", "0") not in ("", "0"):
        return traceback
    kept = []
    while traceback is not None:
        if not _is_own(traceback.tb_frame.f_code.co_filename):
            kept.append(traceback)
        traceback = traceback.tb_next
    found: TracebackType | None = None
    for entry in reversed(kept):
        found = TracebackType(found, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return found


@functools.cache
def _folders() -> tuple[str, ...]:
    """Of the rooms: beside this file's folder in a checkout, below it where longhand is installed."""
    here = Path(os.path.abspath(__file__)).parent
    above = (here.parent, here)
    return (str(here) + os.sep, *(str(place / room) + os.sep for place in above for room in _ROOMS))


def _is_own(file: str) -> bool:
    return file.startswith(_GENERATED) or os.path.abspath(file).startswith(_folders())
