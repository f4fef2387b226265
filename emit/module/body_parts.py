"""What the writer of a function's statements is given, calls in the place of steps, and what it tells: imports."""

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


@dataclasses.dataclass(frozen=True)
class SharedCall:
    """Steps that are a call of a function that does the same for others.

    Attributes:
        n_steps: How many they are.
        name: The function.
        path: The module that it is given.
        tensors: The tensors that it is given.
        numbers: (parameter, what it is given for it).
        targets: The variables of what it makes that is read elsewhere.
        results: Those buffers.
        released: What is dropped after it.
        made: All that it makes.
    """

    n_steps: int
    name: str
    path: str
    tensors: tuple[str, ...]
    numbers: tuple[tuple[str, str], ...]
    targets: tuple[str, ...]
    results: tuple[str, ...]
    released: tuple[str, ...]
    made: frozenset[str]
