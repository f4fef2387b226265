"""`load`: a folder of generated source code becomes a module class or a function. Needs torch only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from longhand.emit.loading import load_unit


def load(path: str | Path) -> Any:
    """What the unit in a folder exports: a module class, or a function.

    Raises:
        UnitError: There is no unit, or it cannot be imported.
    """
    return load_unit(Path(path))
