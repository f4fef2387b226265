"""The lock of a unit on disk: read, and what it says of tools held against those that are here. Without torch."""

from __future__ import annotations

import contextlib
from importlib import metadata
from pathlib import Path
from typing import Any

from longhand.emit.unit.lock_schema import LOCK, parsed
from longhand.emit.unit.on_disk import lock_versions
from longhand.emit.unit.reading import read_regular
from longhand.errors import UnitError


def read_lock(folder: Path) -> dict[str, Any]:
    """The unit's lock.

    Raises:
        UnitError: There is none, or it cannot be read.
    """
    path = folder / LOCK
    hint = "Make one: longhand generate MODULE:FACTORY --out DIR."
    if not folder.is_dir():
        what = "is a file, not a unit's folder" if folder.exists() else "does not exist"
        raise UnitError(f"{folder} {what}.", hint=hint)
    if not path.exists():
        raise UnitError(f"{folder} is no generated unit: it has no {LOCK}.", hint=hint)
    try:
        content = read_regular(path)
    except OSError as error:
        raise UnitError(f"{path} cannot be read: {error.strerror or error}.") from error
    for lock in lock_versions(content):
        return lock
    raise UnitError(
        f"{path} is damaged: {_damage(content)}.",
        hint="Write it anew: longhand generate MODULE:FACTORY --out DIR.",
    )


def _damage(content: bytes) -> str:
    try:
        parsed(content)
    except ValueError as error:
        return str(error)
    return "it cannot be read"


def settled_lock(folder: Path) -> dict[str, Any]:
    """The unit's lock, to be written again: one that git left conflict markers in is refused.

    Raises:
        UnitError: There is none, or it cannot be read, or it has two sides.
    """
    lock = read_lock(folder)
    if len(lock_versions(read_regular(folder / LOCK))) > 1:
        raise UnitError(
            f"{folder / LOCK} has git's conflict markers in it.",
            hint="longhand generate MODULE:FACTORY --out DIR settles them; then try again.",
        )
    return lock


def tool_versions() -> dict[str, str]:
    """What the text of a unit depends on besides the model: the versions of longhand and of its tools."""
    found = {}
    for package in ("torch", "longhand", "triton", "black", "clang-format"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    found["torch"] = found["torch"].partition("+")[0]
    return found
