"""What `load` looks at before a unit runs: cheap enough for every start, and nothing is compiled or run.

A unit whose files no longer fit each other is refused. A unit that may no longer be what its model is (somebody has
changed the model's code since, or a conflict waits to be settled) runs, with a warning: whether it still fits is what
`longhand check` tells. Where the model's source is not to be had, as where only the unit is installed, nothing is
known and nothing is said.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from longhand.emit.unit.contract import find_breaches
from longhand.emit.unit.lock_file import LOCK, is_path, lock_versions, read_regular
from longhand.emit.unit.merge import refuse
from longhand.emit.unit.on_disk import ASIDE, BASE, NEW, UnitOnDisk, read_unit
from longhand.emit.unit.sources import changed_functions
from longhand.errors import StaleUnitWarning, UnitError

_MOST_NAMED = 3


def look_at(folder: Path) -> None:
    """Warns of a unit that may be stale.

    Raises:
        EditError: An edit breaks what other files of the unit rely on.
    """
    disk = read_unit(folder)
    if LOCK not in disk.files:
        return
    files, written = texts_of(disk)
    if files != written:
        refuse(find_breaches(files, written), folder)
    reasons = [
        f"a conflict waits in {folder / path.removeprefix(f'{BASE}/')}"
        for path in sorted(disk.files)
        if path.startswith(f"{BASE}/") and path.endswith(NEW) and path.removeprefix(f"{BASE}/") in disk.files
    ]
    try:
        lock = next(iter(lock_versions(disk.files[LOCK])), {})
    except UnitError:
        lock = {}  # a later longhand's: its files may run nevertheless
    if changed := changed_sources(lock, folder):
        reasons.append(f"{listed_briefly(changed)} changed since it was generated")
    if reasons:
        warnings.warn(
            f"{folder} may not be what its model is today: {'; '.join(reasons)}. `longhand check {folder}` tells, "
            "`longhand generate` brings it up to date.",
            StaleUnitWarning,
            stacklevel=3,
        )


def changed_sources(lock: Mapping[str, Any], folder: Path) -> list[str]:
    """The model's functions that are not as they were when the unit was generated: ``Mlp.forward (models/net.py)``."""
    functions = []
    for file, known in lock.get("sources", {}).items():
        path = _source(file, folder) if is_path(file) else None
        if path is not None:
            text = read_regular(path).decode(errors="replace")
            functions += [f"{name} ({file})" for name in changed_functions(text, known)]
    return functions


def listed_briefly(names: Sequence[str]) -> str:
    """The first few of them."""
    return ", ".join(names[:_MOST_NAMED]) + (" and others" if names[_MOST_NAMED:] else "")


def texts_of(disk: UnitOnDisk) -> tuple[dict[str, str], dict[str, str]]:
    """(the unit's files as they are, as longhand last wrote them), those that it writes, as text."""
    paths = [
        path.removeprefix(f"{BASE}/")
        for path in disk.files
        if path.startswith(f"{BASE}/") and not path.endswith(NEW) and not path.startswith(f"{BASE}/{ASIDE}/")
    ]
    written = {path: disk.bases(path)[0].decode(errors="replace") for path in paths}
    files = {path: disk.files[path].decode(errors="replace") for path in paths if path in disk.files}
    return files, written


def _source(file: str, folder: Path) -> Path | None:
    """A file that the lock names, relative to the project or the place of installation; None if it is not here."""
    for root in (*folder.resolve().parents, *map(Path, sys.path)):
        if (root / file).is_file():
            return root / file
    return None
