"""What eager says of a program: run once for every door that is compared with it.

Each run is made when it is first asked for. They are made under the grad mode that the caller has set.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from tests.autograd.op_programs import SEED, Program, seen, seen_in_float64

__all__ = ["EagerRuns"]


class EagerRuns:
    """A program's runs in eager, in training or in inference.

    Attributes:
        program: What runs.
        train: Whether gradients are taken.
    """

    def __init__(self, program: Program, *, train: bool) -> None:
        self.program = program
        self.train = train

    @property
    def expected(self) -> dict[str, Any]:
        """What is seen; nothing if eager raises."""
        return self._first[0]

    @property
    def raised(self) -> Exception | None:
        """Why there is nothing to see."""
        return self._first[1]

    @property
    def draws(self) -> bool:
        """Whether it takes random numbers, so that what runs before it decides what it gives."""
        return self._first[2]

    @functools.cached_property
    def again(self) -> dict[str, Any]:
        """A second run: what differs from the first is nothing that could be compared."""
        return seen(self.program.function(), self.program.arguments(train=self.train))

    @functools.cached_property
    def exact(self) -> dict[str, Any]:
        """In float64; in the program's own numbers where the op knows no float64."""
        try:
            return seen_in_float64(self.program, train=self.train)
        except Exception:
            return self.expected

    @functools.cached_property
    def _first(self) -> tuple[dict[str, Any], Exception | None, bool]:
        found: dict[str, Any] = {}
        raised = None
        try:
            found = seen(self.program.function(), self.program.arguments(train=self.train))
        except Exception as error:
            raised = error.with_traceback(None)  # which would keep every tensor of its frames
        state = torch.get_rng_state()
        torch.default_generator.manual_seed(SEED)
        return found, raised, not torch.equal(state, torch.get_rng_state())
