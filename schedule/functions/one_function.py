"""A function that several modules are: what it takes, what tells its sizes, what it is called."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from longhand.schedule.functions.alike_calls import CallsAlike
from longhand.schedule.functions.alike_numbers import Number
from longhand.schedule.functions.sites import FunctionCandidate


@dataclasses.dataclass(frozen=True)
class OneFunction:
    """What several modules are.

    Attributes:
        candidate: What they do, in which places of the plan, in which words.
        parameters: What it takes beside its module and numbers.
        numbers: For each module the numbers that it is called with: those of library calls, and sizes that differ.
        stated: Words for sizes that are the same in all of them, or that a weight of the module's tells.
        alike: The modules' calls.
        name: Its own.
        also: What was found later to be the same function.
    """

    candidate: FunctionCandidate
    parameters: tuple[str, ...]
    numbers: tuple[tuple[tuple[str, Number], ...], ...]
    stated: Mapping[str, int | str]
    alike: CallsAlike
    name: str = ""
    also: tuple[FunctionCandidate, ...] = ()

    @property
    def n_parameters(self) -> int:
        """Beside the module."""
        return len(self.parameters) + len(self.numbers[0])
