"""A unit as text: what is read, and nothing that runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class UnitText:
    """One unit, as it would be written.

    Attributes:
        model: Its row in `MODELS`.
        device: ``cpu`` or ``cuda``.
        files: The Python and C++ files that longhand writes for people, text by path.
    """

    model: str
    device: str
    files: dict[str, str]

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels: each has a Python file, in C++ beside its source."""
        paths = [Path(path) for path in self.files if path.startswith("kernels/") and path.endswith(".py")]
        return [path.stem for path in paths if path.stem != "__init__"]

    @property
    def wrappers(self) -> dict[str, str]:
        """model.py and backward.py."""
        return {path: text for path, text in self.files.items() if path in ("model.py", "backward.py")}
