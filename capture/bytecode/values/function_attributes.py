"""Attributes of tracked functions, read and written: those that every function has, and its own dict."""

from __future__ import annotations

import types

from longhand.capture.bytecode.entry.breaks import Raised, Unsupported
from longhand.capture.bytecode.trace import DELETED, Trace
from longhand.capture.bytecode.values.constants import describe, from_python
from longhand.capture.bytecode.values.sources import Source, attribute
from longhand.capture.bytecode.values.tracked import Bound, Const, Dict, Error, Func, Seq, Value

__all__ = ["get_of_function", "missing", "put_of_function"]

# What may be written on a function that the captured code made, besides its own dict.
_WRITTEN = frozenset(
    ["__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "__type_params__"]
)


def get_of_function(trace: Trace, owner: Func, name: str) -> Value:
    """``function.name``."""
    if name in owner.special:
        return trace.force(owner.special[name])
    if name in owner.attributes:
        return trace.force(owner.attributes[name])
    simple = {"__name__": owner.name, "__qualname__": owner.code.co_qualname, "__code__": owner.code}
    if name in simple:
        return Const(simple[name])
    if name == "__get__":
        return Bound(owner, name)
    return _of_made(trace, owner, name) if owner.real is None else _of_real(trace, owner, name)


def _of_made(trace: Trace, owner: Func, name: str) -> Value:
    """Of a function that the captured code made."""
    if name == "__dict__":
        return Dict(dict, owner.attributes)
    if name == "__defaults__":
        return Seq(tuple, list(owner.defaults)) if owner.defaults else Const(None)
    if name == "__kwdefaults__":
        return Dict(dict, owner.keyword_defaults) if owner.keyword_defaults else Const(None)
    if name == "__module__":
        return from_python(owner.globals.get("__name__"))
    if name == "__doc__":
        first = owner.code.co_consts[0] if owner.code.co_consts else None
        return Const(first if isinstance(first, str) else None)
    if name in ("__annotations__", "__type_params__") and name in vars(types.FunctionType):
        made: Value = Dict(dict, {}) if name == "__annotations__" else Seq(tuple, [])
        owner.special[name] = made
        return made
    if name in vars(types.FunctionType):
        raise Unsupported(f"{name} of a function that was just made")
    raise missing(owner, name)


def _of_real(trace: Trace, owner: Func, name: str) -> Value:
    """Of a function that was there before the call."""
    if not hasattr(owner.real, name):
        if owner.source is not None:
            trace.guards.add(
                owner.source, f"not hasattr({{}}, {name!r})", f"{owner.source.name} has no {name}"
            )
        raise missing(owner, name)
    if name in ("__module__", "__doc__"):
        return Const(getattr(owner.real, name))
    source = owner.source or Source(None, trace.guards.constant(owner.real), owner.name)
    return trace.wrap(getattr(owner.real, name), attribute(source, name))


def put_of_function(owner: Func, name: str, value: Value) -> None:
    """``function.name = value`` on a function that the captured code made; DELETED deletes."""
    if name in vars(types.FunctionType):
        if name not in _WRITTEN or value is DELETED:
            raise Unsupported(f"{name} of a function is set")
        owner.special[name] = value
    elif value is not DELETED:
        owner.attributes[name] = value
    elif name in owner.attributes:
        del owner.attributes[name]
    else:
        raise missing(owner, name)


def missing(owner: Value, name: str) -> Raised:
    """The AttributeError of a value that has no such attribute."""
    text = f"'{describe(owner)}' object has no attribute '{name}'"
    return Raised(Error(AttributeError, [Const(text)]))
