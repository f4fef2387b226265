"""The cache folder, which must be the user's own all the way up: what is loaded from it runs with the user's rights."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from longhand.errors import OutputError


def owned_cache(name: str) -> Path:
    """A folder of the cache, made with mode 0700 where it is not there: $LONGHAND_CACHE_DIR, else ~/.cache/longhand.

    Raises:
        OutputError: It cannot be made, or belongs to somebody else, or others may write into it: what is loaded from
            it runs with this user's rights.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(os.environ.get("LONGHAND_CACHE_DIR") or os.path.join(base, "longhand")) / name
    hint = "Set LONGHAND_CACHE_DIR to a folder of your own."
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for owned in (folder.parent, folder):
            status = owned.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                raise OutputError(f"The cache folder {owned} is not yours.", hint=hint)
            if status.st_mode & 0o022:
                raise OutputError(
                    f"Others may write into the cache folder {owned}.", hint=f"chmod 700 {owned}"
                )
        strange = strange_parent(folder)
    except OSError as error:
        raise OutputError(f"The cache folder {folder} cannot be made: {error}", hint=hint) from error
    if strange is not None:
        raise OutputError(
            f"Others may put something else in the place of the cache folder {folder}: {strange} is theirs.",
            hint=hint,
        )
    return folder


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
