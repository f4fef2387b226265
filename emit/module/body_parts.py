"""What the writer of a function's statements tells beside them: imports."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Needs:
    """What the statements name and model.py must import.

    Attributes:
        functional: ``F``.
        kernels: The unit's kernels.
        empty: Memory from the pool.
        runtime: Further names of runtime.py.
        registering: Modules whose import makes custom operators known.
    """

    functional: bool = False
    kernels: bool = False
    empty: bool = False
    runtime: set[str] = dataclasses.field(default_factory=set)
    registering: set[str] = dataclasses.field(default_factory=set)

    def merge(self, other: Needs) -> None:
        """Adds what another function names."""
        self.functional |= other.functional
        self.kernels |= other.kernels
        self.empty |= other.empty
        self.runtime |= other.runtime
        self.registering |= other.registering
