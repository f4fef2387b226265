"""Which function lowers which op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from longhand.errors import LoweringError

Lowering = Callable[..., Any]

LOWERINGS: dict[torch._ops.OpOverload, Lowering] = {}
VIEWS: dict[torch._ops.OpOverload, Lowering] = {}


def lowers(*targets: torch._ops.OpOverload) -> Callable[[Lowering], Lowering]:
    """Registers a lowering: called with the context and the op's arguments in the order of its schema, defaults
    filled in, tensors as `TensorView`, symbolic sizes as SymPy terms. It returns a TensorView, or a tuple of them.
    """
    return _registrar(LOWERINGS, targets)


def views(*targets: torch._ops.OpOverload) -> Callable[[Lowering], Lowering]:
    """Registers a view op: as `lowers`, but the result is a map onto the first argument's buffer (or None: copy)."""
    return _registrar(VIEWS, targets)


def _registrar(
    table: dict[torch._ops.OpOverload, Lowering], targets: tuple[torch._ops.OpOverload, ...]
) -> Callable[[Lowering], Lowering]:
    def register(function: Lowering) -> Lowering:
        for target in targets:
            if target in LOWERINGS or target in VIEWS:
                raise LoweringError(f"{target} has two lowerings.")
            table[target] = function
        return function

    return register
