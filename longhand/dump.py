"""LONGHAND_DUMP=dir: each stage's result as text, numbered in order."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path


@dataclasses.dataclass
class Dump:
    """Writes each stage's result, numbered, where LONGHAND_DUMP says.

    Attributes:
        folder: None writes nothing.
        count: How many files this compilation has written.
    """

    folder: Path | None
    count: int = 0

    @classmethod
    def from_environment(cls) -> Dump:
        """As LONGHAND_DUMP says now."""
        folder = os.environ.get("LONGHAND_DUMP")
        return cls(Path(folder) if folder else None)

    def write(self, name: str, value: object) -> None:
        """Writes the value as text."""
        self.count += 1
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{self.count}_{name}").write_text(str(value))
