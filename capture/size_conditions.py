"""What was decided about symbolic sizes while a call was traced: a graph is right only where that holds."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch import fx

from longhand.capture import torch_private
from longhand.capture.graph import SymbolicSize
from longhand.errors import CaptureError


def size_conditions(graph: fx.Graph, symbols: tuple[SymbolicSize, ...]) -> tuple[sympy.Basic, ...]:
    """The conditions that do not follow from the symbols' bounds, in the order in which they were met.

    Raises:
        CaptureError: A condition is about a size that no input tells.
    """
    environment = _environment(graph)
    if environment is None:
        return ()
    known = {entry.symbol for entry in symbols}
    bounds = {entry.symbol: _between(entry) for entry in symbols}
    conditions: dict[sympy.Basic, None] = {}
    for guard in environment.guards:
        condition = environment.replace(guard.expr)
        if condition in (sympy.true, sympy.false) or _follows(condition, bounds):
            continue
        if not condition.free_symbols <= known:
            raise CaptureError(
                f"The code decides by a size that the call does not tell: {condition}.",
                hint="Make that size a fixed number: leave it out of dynamic_shapes.",
            )
        conditions[condition] = None
    return tuple(conditions)


def _environment(graph: fx.Graph) -> Any:
    for node in graph.nodes:
        value = node.meta.get("val")
        for size in value.shape if isinstance(value, torch.Tensor) else (value,):
            if isinstance(size, torch.SymInt):
                return torch_private.shape_env_of(size)
    return None


def _between(entry: SymbolicSize) -> sympy.Set:
    upper = sympy.oo if entry.maximum is None else entry.maximum
    return sympy.Range(entry.minimum, upper if upper is sympy.oo else upper + 1)


def _follows(condition: sympy.Basic, bounds: dict[sympy.Symbol, sympy.Set]) -> bool:
    """Whether a comparison of one size with a number holds anywhere between the size's bounds."""
    if len(condition.free_symbols) != 1 or not isinstance(condition, sympy.core.relational.Relational):
        return False
    (symbol,) = condition.free_symbols
    if symbol not in bounds or symbol not in condition.args or isinstance(condition, sympy.Eq):
        return False
    number = next(part for part in condition.args if part is not symbol)
    if not number.is_Integer:
        return False
    between = bounds[symbol]
    if isinstance(condition, sympy.Ne):
        return number not in between
    ends = (between.inf, between.sup)
    return all(condition.subs(symbol, end) == sympy.true for end in ends)
