"""Reads files that may be a stranger's: regular ones only, of bounded size, and never one that waits."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from longhand.errors import UnitError

LARGEST_TEXT = 32 << 20
LARGEST_TENSORS = 64 << 30  # constants.pt


def read_regular(path: Path, limit: int | None = None) -> bytes:
    """The bytes of a file; a link is followed.

    Args:
        path: The file.
        limit: How long it may be; by default by its kind.

    Raises:
        UnitError: It is no regular file (a pipe would wait for ever), or too long.
        OSError: It cannot be read.
    """
    limit = limit or (LARGEST_TENSORS if path.suffix == ".pt" else LARGEST_TEXT)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnitError(f"{path} is no regular file.", hint="Remove it: a unit holds plain files.")
        if status.st_size <= limit:
            content = file.read(status.st_size + 1)  # no more: so much memory is taken at once
            if len(content) <= status.st_size:
                return content
    raise UnitError(
        f"{path} is too long, or grows: {status.st_size} bytes, and at most {limit} are read.",
        hint="Remove it, or write the unit anew: longhand generate.",
    )


def leaves(path: Path, folder: Path) -> bool:
    """Whether a path leads out of a folder by way of a link."""
    try:
        return not path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a loop of links
        return True
