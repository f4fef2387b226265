"""Whether a folder is the user's own all the way up: what is loaded from it runs with the user's rights."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def strange_parent(folder: Path) -> Path | None:
    """The first folder on the way to this one that somebody else than root and this user may change; None if none is.

    Looked at by descriptor, link by link, so that nobody exchanges one meanwhile. What a group may write is the
    group's: root's and the user's own are trusted.
    """
    folder = Path(os.path.realpath(folder))
    place = Path(folder.anchor)
    mode = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
    here = os.open(place, mode)
    try:
        for part in folder.parts[1:]:
            inner = os.open(part, mode | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here, place = inner, place / part
            if _is_strange(os.fstat(here)):
                return place
    finally:
        os.close(here)
    return None


def _is_strange(facts: os.stat_result) -> bool:
    others = stat.S_IWOTH if facts.st_gid in (0, os.getgid()) else stat.S_IWOTH | stat.S_IWGRP
    # In /tmp others may add names, but take away none.
    is_shared = bool(facts.st_mode & others) and not facts.st_mode & stat.S_ISVTX
    return facts.st_uid not in (0, os.getuid()) or is_shared
