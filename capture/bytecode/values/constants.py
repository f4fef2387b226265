"""The way between tracked values and plain Python constants, and tracked values as keys."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any

import torch

from longhand.capture.bytecode.entry.breaks import NeedsData, Raised, Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.arrays import array_of, is_array
from longhand.capture.bytecode.values.tracked import (
    Array,
    Const,
    Dict,
    Error,
    Func,
    IntRange,
    New,
    Obj,
    Seq,
    SetOf,
    Slice,
    Sym,
    Tensor,
    Value,
    kind_word,
)

__all__ = [
    "NotConstant",
    "as_key",
    "as_mapping",
    "as_python",
    "describe",
    "fold",
    "fold_call",
    "from_key",
    "from_python",
    "hold_if_nan",
]


class NotConstant(Unsupported):
    """A value is needed that capture does not have."""


class _TensorNeeded(NotConstant, NeedsData):
    """It is a tensor's."""


def from_python(value: Any) -> Value:
    """Tracked values for a constant that capture itself computed."""
    kind = type(value)
    if (
        kind is tuple
        or kind is list
        or kind is torch.Size
        or (isinstance(value, tuple) and hasattr(kind, "_fields"))
    ):
        return Seq(kind, [from_python(part) for part in value])
    if kind in (dict, collections.OrderedDict):
        return Dict(kind, {key: from_python(part) for key, part in value.items()})
    if kind in (set, frozenset):
        return SetOf(kind, value if kind is frozenset else value.copy())
    if is_array(value):
        return array_of(value)
    if kind is range:
        return IntRange(value)
    if kind is slice:
        return Slice((from_python(value.start), from_python(value.stop), from_python(value.step)))
    return Const(value)


def as_python(trace: Trace, value: Value) -> Any:
    """The plain Python value.

    Raises:
        NotConstant: It is not known, or it is an object with an identity.
    """
    value = trace.force(value)
    if isinstance(value, Const | IntRange | Array):
        return value.value
    if isinstance(value, Seq):
        parts = [as_python(trace, part) for part in value.items]
        if value.kind in (list, tuple, torch.Size):
            return value.kind(parts)
        if hasattr(value.kind, "_fields"):
            return value.kind(*parts)
    if isinstance(value, Slice):
        return slice(*(as_python(trace, part) for part in value.parts))
    if isinstance(value, Dict) and value.kind in (dict, collections.OrderedDict):
        trace.guard_keys(value)
        return value.kind((key, as_python(trace, part)) for key, part in value.items.items())
    if isinstance(value, SetOf) and not any(isinstance(key, Value) for key in value.items):
        return value.kind(value.items if value.source is None or value.changed else value.real)
    if isinstance(value, Sym):
        raise NotConstant("a symbolic size is needed as a plain number")
    if isinstance(value, Tensor):
        raise _TensorNeeded("a tensor's value is needed in Python")
    raise NotConstant(f"a {describe(value)} is needed as a constant")


def describe(value: Value) -> str:
    """A word for people."""
    if isinstance(value, Obj):
        return type(value.value).__qualname__
    if isinstance(value, New | Error):
        return value.kind.__qualname__
    return kind_word(value)


def _hashes_by_identity(kind: type) -> bool:
    method: Any = kind.__hash__
    return method is object.__hash__


def as_key(trace: Trace, value: Value) -> Any:
    """A value as a dict key: constants by value, what has an identity by itself."""
    value = trace.force(value)
    if isinstance(value, Obj) and _hashes_by_identity(type(value.value)):
        return value.value
    if isinstance(value, Func) and value.real is not None:
        return value.real
    if isinstance(value, Tensor | Func) or (isinstance(value, New) and _hashes_by_identity(value.kind)):
        return value  # its own key: by identity
    key = as_python(trace, value)
    hold_if_nan(trace, value)
    try:
        hash(key)
    except TypeError:
        raise Unsupported("an unhashable key") from None
    return key


def hold_if_nan(trace: Trace, value: Value) -> bool:
    """Whether the value is a NaN: which one it is matters where it is looked for."""
    if not isinstance(value, Const) or not isinstance(value.value, float) or value.value == value.value:
        return False
    if value.source is not None:
        trace.guards.same_object(value.source, value.value)
    return True


def from_key(trace: Trace, key: Any) -> Value:
    """The tracked value of a key that as_key() gave."""
    if isinstance(key, Value):
        return key
    return trace.known(key) or from_python(key)


def as_mapping(trace: Trace, value: Value) -> Dict:
    """What a mapping gives that is spread with ``**`` or makes a dict: what it holds, or what its own methods say."""
    value = trace.force(value)
    if isinstance(value, New | Obj):
        kind = value.kind if isinstance(value, New) else type(value.value)
        names = ("keys", "__getitem__") if issubclass(kind, collections.OrderedDict) else ("__iter__",)
        own = [name for name in names if isinstance(trace.classes.lookup(kind, name), types.FunctionType)]
        if isinstance(value.storage, Dict) and not own:
            return value.storage
        made = Dict(dict, {})
        for key in trace.all_items(trace.call_value(trace.get_attribute(value, "keys"), [], {})):
            python = as_key(trace, key)
            if python not in made.items:
                made.keys[python] = key
            made.items[python] = trace.call_value(trace.get_special(value, "__getitem__"), [key], {})
        return made
    if not isinstance(value, Dict):
        raise Unsupported(f"a {describe(value)} is spread with **")
    return value


def fold(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Value:
    """What a function of known values gives; what it raises, the user's program raises."""
    try:
        return from_python(function(*args, **kwargs))
    except Unsupported:
        raise
    except Exception as error:
        if any(map(is_array, (*args, *kwargs.values()))) and "read-only" in str(error):
            raise Unsupported("an array of numpy's is written to") from None
        raise Raised(Error(type(error), [from_python(part) for part in error.args], is_exact=True)) from None


def fold_call(
    trace: Trace, function: Callable[..., Any], args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """Runs a pure function now."""
    given = [as_python(trace, value) for value in args]
    return fold(function, *given, **{key: as_python(trace, value) for key, value in kwargs.items()})
