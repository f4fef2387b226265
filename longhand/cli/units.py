"""Which units a command is about if none is named."""

from __future__ import annotations

from pathlib import Path

from longhand.cli.settings import unit_globs
from longhand.emit.unit.lock_file import LOCK
from longhand.errors import UnitError

GRAPHS = "graphs.json"  # as longhand.compiled.parts writes it, which imports torch


def renewable_here() -> list[Path]:
    """Every unit below the current folder as `generate` renews it: the graphs of one call are one.

    Raises:
        UnitError: There is none.
        OptionError: pyproject.toml cannot be read.
    """
    folders = [folder.parent if (folder.parent / GRAPHS).is_file() else folder for folder in units_here()]
    return list(dict.fromkeys(folders))


def units_here() -> list[Path]:
    """Every unit below the current folder; where pyproject.toml says where units are, those.

    Raises:
        UnitError: There is none.
        OptionError: pyproject.toml cannot be read.
    """
    here = Path.cwd()
    known = unit_globs()
    if known is None:
        locks = list(Path().rglob(LOCK))
    else:
        root, patterns = known
        folders = {folder for pattern in patterns for folder in root.glob(pattern)}
        locks = [folder / LOCK for folder in folders if (folder / LOCK).is_file()]
        locks = [path.relative_to(here) if path.is_relative_to(here) else path for path in locks]
    units = [
        path.parent for path in sorted(locks) if not any(part.startswith(".") for part in path.parts[:-1])
    ]
    if not units:
        where = (
            "below this folder"
            if known is None
            else f"where {known[0] / 'pyproject.toml'} says that units are"
        )
        raise UnitError(
            f"There is no generated unit {where}.",
            hint="Make one: longhand generate MODULE:FACTORY --out DIR.",
        )
    return units
