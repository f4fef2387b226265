"""LONGHAND_DUMP=dir: each stage's result as text, numbered in order."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_NUMBER = re.compile(r"(\d+)_")


@dataclasses.dataclass(frozen=True)
class Dump:
    """Writes each stage's result where LONGHAND_DUMP says.

    Attributes:
        folder: None writes nothing.
    """

    folder: Path | None

    @classmethod
    def from_environment(cls) -> Dump:
        """As LONGHAND_DUMP says now."""
        folder = os.environ.get("LONGHAND_DUMP")
        return cls(Path(folder) if folder else None)

    def write(self, name: str, value: T, show: Callable[[T], str] = str) -> None:
        """Writes a value as text, numbered after what is there: of several graphs, none replaces another's."""
        if self.folder is None:
            return
        (self.folder / self._numbered(name)).write_text(show(value), encoding="utf-8")

    def within(self, name: str) -> Dump:
        """A folder for the parts of a stage, numbered among the stages."""
        return Dump(None if self.folder is None else self.folder / self._numbered(name))

    def _numbered(self, name: str) -> str:
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        numbers = [int(match[1]) for path in self.folder.iterdir() if (match := _NUMBER.match(path.name))]
        return f"{max(numbers, default=0) + 1:03d}_{name}"
