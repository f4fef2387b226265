"""A unit as the page shows it: its files on disk, or at a git revision, with its lock. Nothing of it runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longhand.emit.unit.lock_file import LOCK, lock_versions, read_lock
from longhand.emit.unit.on_disk import BASE, read_unit
from longhand.errors import OptionError
from longhand.review.model_source import ReadsSource, project_root, source_at, source_on_disk
from longhand.staleness.revisions import files_at, need_revision

_SHOWN = (".py", ".cpp", ".h", ".md")
_NOT_SHOWN = ("runtime.py", "check.py")


@dataclasses.dataclass(frozen=True)
class UnitContent:
    """A unit.

    Attributes:
        files: Bytes by path, ``.base/`` included.
        lock: The lock; empty if the unit was not there.
        read_source: Reads the model's files of the same time.
    """

    files: Mapping[str, bytes]
    lock: Mapping[str, Any]
    read_source: ReadsSource

    def lines(self, path: str) -> list[str]:
        """The lines of a text; none of a file that is not there."""
        return self.files.get(path, b"").decode(errors="replace").splitlines()

    def texts(self) -> list[str]:
        """The files that people read and edit: the model and the kernels."""
        return [
            path
            for path in sorted(self.files)
            if path.endswith(_SHOWN) and not path.startswith(f"{BASE}/") and path not in _NOT_SHOWN
        ]

    def kernel_path(self, name: str) -> str:
        """Where one reads a kernel: its C++ where it has some; empty if the kernel is not there."""
        paths = (f"kernels/{name}{ending}" for ending in (".cpp", ".py"))
        return next((path for path in paths if path in self.files), "")


def content_on_disk(folder: Path) -> UnitContent:
    """The unit as it is.

    Raises:
        UnitError: There is no unit, or its lock cannot be read.
    """
    lock = read_lock(folder)
    files = read_unit(folder, follow_links=False).files
    return UnitContent(files, lock, source_on_disk(project_root(folder)))


def content_at(folder: Path, revision: str, option: str) -> UnitContent:
    """The unit as it was at a revision; an empty one if it was not there.

    Raises:
        OptionError: There is no such revision.
    """
    if not folder.is_dir():
        raise OptionError(f"{option}: {folder} is not here.", hint="Give the folder of a unit.")
    need_revision(folder, revision, option)
    files = files_at(folder, revision)
    lock = next(iter(lock_versions(files.get(LOCK, b""))), {})
    return UnitContent(files, lock, source_at(project_root(folder), revision))
