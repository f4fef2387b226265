"""copy.copy and copy.deepcopy of tracked values."""

from __future__ import annotations

import copy
import copyreg

import torch

from longhand.capture.bytecode.calls.rules import Rules
from longhand.capture.bytecode.containers.sets import members
from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values import attributes
from longhand.capture.bytecode.values.classes import MISSING
from longhand.capture.bytecode.values.constants import describe
from longhand.capture.bytecode.values.tracked import (
    Array,
    Const,
    Dict,
    Func,
    IntRange,
    New,
    Obj,
    Seq,
    SetOf,
    Value,
)

__all__ = ["RULES"]

RULES = Rules()


@RULES.of(copy.copy)
def _copy(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = trace.force(args[0])
    if isinstance(value, Seq):
        return Seq(value.kind, list(value.items))
    if isinstance(value, Dict):
        trace.guard_keys(value)
        return Dict(value.kind, dict(value.items), factory=value.factory, keys=dict(value.keys))
    if isinstance(value, SetOf):
        return SetOf(value.kind, members(value).copy())
    if isinstance(value, Const | IntRange):
        return value
    if isinstance(value, Array):
        return Array(value.value)
    if isinstance(value, Obj) and _is_copied_by_attributes(trace, type(value.value)):
        held = trace.force(attributes.get(trace, value, "__dict__"))
        assert isinstance(held, Dict)
        trace.guard_keys(held)
        return New(type(value.value), dict(held.items))
    raise Unsupported(f"copy() of a {describe(value)}")


def _is_copied_by_attributes(trace: Trace, kind: type) -> bool:
    """Whether copy() makes an instance without `__init__` and gives it the same attributes: nothing says otherwise."""
    own = ("__copy__", "__setstate__")
    plain = ("__reduce__", "__reduce_ex__", "__getstate__", "__new__")
    return (
        kind not in copyreg.dispatch_table
        and all(trace.classes.lookup(kind, name) is MISSING for name in own)
        and all(trace.classes.lookup(kind, name) is vars(object)[name] for name in plain)
        and all("__slots__" not in vars(base) for base in kind.__mro__[:-1])
    )


@RULES.of(copy.deepcopy)
def _deepcopy(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) != 1 or kwargs:
        raise Unsupported("deepcopy() with a memo")
    return _deep(trace, trace.force(args[0]), {})


def _deep(trace: Trace, value: Value, memo: dict[Value, Value]) -> Value:
    value = trace.force(value)
    if value in memo:
        return memo[value]
    if isinstance(value, Const | IntRange | Func):
        return value
    if isinstance(value, Array):
        memo[value] = Array(value.value)
        return memo[value]
    if isinstance(value, Seq) and (value.kind in (list, tuple, torch.Size) or hasattr(value.kind, "_fields")):
        listed = Seq(value.kind, [])
        memo[value] = listed
        listed.items.extend(_deep(trace, part, memo) for part in value.items)
        return listed
    if isinstance(value, Dict):
        trace.guard_keys(value)
        mapped = Dict(value.kind, {}, factory=value.factory, keys=dict(value.keys))
        memo[value] = mapped
        mapped.items.update({key: _deep(trace, part, memo) for key, part in value.items.items()})
        return mapped
    if isinstance(value, SetOf):
        return SetOf(value.kind, members(value).copy())
    if (held := _held_by(trace, value)) is not None:
        kind = type(value.value) if isinstance(value, Obj) else value.kind  # type: ignore[attr-defined]
        made = New(kind)
        memo[value] = made
        made.attributes.update({key: _deep(trace, part, memo) for key, part in held.items()})
        return made
    raise Unsupported(f"deepcopy() of a {describe(value)}")


def _held_by(trace: Trace, value: Value) -> dict[str, Value] | None:
    """The attributes of an instance of which a deep copy has copies, and nothing else."""
    if isinstance(value, New) and value.storage is None and _copies_plainly(value.kind):
        return value.attributes
    if isinstance(value, Obj) and not trace.attributes.get(value) and _copies_plainly(type(value.value)):
        held = attributes.get_plain(trace, value, "__dict__")
        assert isinstance(held, Dict)
        trace.guard_keys(held)
        return held.items
    return None


def _copies_plainly(kind: type) -> bool:
    """Whether a deep copy is a new object with copied attributes and nothing else."""
    special = ("__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__copy__")
    names = [name for base in kind.__mro__[:-1] for name in vars(base)]
    plain = all(base.__flags__ & (1 << 9) for base in kind.__mro__[:-1])
    return plain and "__slots__" not in names and not any(name in names for name in special)
