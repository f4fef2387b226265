"""``torch.tensor([x.shape[0], 2])`` of symbolic sizes: torch itself would take the numbers behind them.

Each number is a tensor of its own that is filled with it, and all are stacked: so one graph is right for all sizes.
"""

from __future__ import annotations

from typing import Any

import torch

from longhand.capture.bytecode.calls.tensors import torch_call
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.constants import as_python
from longhand.capture.bytecode.values.tracked import Const, Seq, Sym, Value

__all__ = ["tensor_of_sizes"]

_KINDS = (bool, int, float)


def tensor_of_sizes(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """A tensor of numbers of which at least one is symbolic; None for every other call."""
    if len(args) != 1 or not set(kwargs) <= {"dtype", "device"}:
        return None
    kinds = _kinds(trace, args[0])
    if kinds is None or not kinds & {torch.SymInt, torch.SymFloat}:
        return None
    given = {name: as_python(trace, value) for name, value in kwargs.items()}
    is_whole = not kinds & {float, torch.SymFloat}
    dtype = given.get("dtype") or (torch.int64 if is_whole else torch.get_default_dtype())
    if dtype is torch.bool or not (is_whole or dtype.is_floating_point):
        return None
    return _filled(trace, args[0], {"dtype": Const(dtype), "device": Const(given.get("device"))})


def _kinds(trace: Trace, value: Value) -> set[type] | None:
    """The kinds of all numbers in nested sequences of equal lengths; None if anything else is there."""
    value = trace.force(value)
    if isinstance(value, Sym):
        kind = type(value.fake)
        return {kind} if kind in (torch.SymInt, torch.SymFloat) else None
    if isinstance(value, Const):
        return {type(value.value)} if type(value.value) in _KINDS else None
    if (
        not isinstance(value, Seq)
        or not value.items
        or not (value.kind is list or issubclass(value.kind, tuple))
    ):
        return None
    parts = [trace.force(part) for part in value.items]
    lengths = {len(part.items) if isinstance(part, Seq) else -1 for part in parts}
    all_kinds: set[type] = set()
    for part in parts:
        kinds = _kinds(trace, part)
        if kinds is None or len(lengths) > 1:
            return None
        all_kinds |= kinds
    return all_kinds


def _filled(trace: Trace, value: Value, options: dict[str, Any]) -> Value:
    value = trace.force(value)
    if isinstance(value, Seq):
        parts = [_filled(trace, part, options) for part in value.items]
        return torch_call(trace, torch.stack, [Seq(list, parts)], {})
    return torch_call(trace, torch.full, [Seq(tuple, []), value], dict(options))
