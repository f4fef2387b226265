"""Sets, in the order that CPython gives them: a real set goes through what the captured set goes through."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from longhand.capture.bytecode.entry.breaks import Raised, Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.constants import as_key, from_key
from longhand.capture.bytecode.values.tracked import Const, Error, SetOf, Value

__all__ = ["add", "combined", "made_of", "members", "method", "set_items", "update"]

_OPERATORS: dict[str, Callable[..., Any]] = {
    "|": operator.or_,
    "&": operator.and_,
    "-": operator.sub,
    "^": operator.xor,
}
_QUESTIONS = ("issubset", "issuperset", "isdisjoint")
_COMBINED = ("union", "intersection", "difference", "symmetric_difference", "copy")


def made_of(trace: Trace, kind: type, values: list[Value]) -> SetOf:
    """``kind(values)``."""
    return SetOf(kind, kind(as_key(trace, value) for value in values))


def members(value: SetOf) -> Any:
    """A real set that is ordered as the program's is.

    Raises:
        Unsupported: Nobody knows the order.
    """
    if value.source is None:
        return value.items
    if value.changed:
        raise Unsupported("the order of a set matters that came from outside and was changed")
    return value.real


def set_items(trace: Trace, value: SetOf) -> list[Value]:
    """The items in the set's order."""
    keys = list(members(value))
    if len(keys) > 1 and any(isinstance(key, Value) for key in keys):
        raise Unsupported("the order of a set of objects matters")
    return [from_key(trace, key) for key in keys]


def add(trace: Trace, owner: SetOf, key: Any) -> None:
    """``owner.add(key)``."""
    trace.changing(owner)
    owner.items.add(key)
    owner.log.append(("add", key))


def update(trace: Trace, owner: SetOf, other: Value) -> None:
    """``owner.update(other)``."""
    other = trace.force(other)
    if isinstance(other, SetOf) and owner.source is None:
        owner.items.update(members(other))
        return
    for part in trace.all_items(other):
        add(trace, owner, as_key(trace, part))


def combined(trace: Trace, symbol: str, left: SetOf, right: SetOf, in_place: bool) -> Value:
    """``left symbol right``."""
    if symbol not in _OPERATORS:
        raise Unsupported(f"a set {symbol} a set")
    if not in_place or left.kind is not set:
        return SetOf(left.kind, _OPERATORS[symbol](members(left), members(right)))
    if symbol == "|":
        update(trace, left, right)
    elif symbol == "-":
        for key in right.items:
            _discard(trace, left, key)
    elif left.source is None:
        left.items = _OPERATORS[symbol](left.items, members(right))
    else:
        raise Unsupported(f"a set from outside is changed by {symbol}=")
    return left


def _discard(trace: Trace, owner: SetOf, key: Any) -> None:
    trace.changing(owner)
    owner.items.discard(key)
    owner.log.append(("discard", key))


def method(trace: Trace, owner: SetOf, name: str, args: list[Value]) -> Value:
    """``owner.name(*args)``, but for the methods with two underscores."""
    if name in ("add", "discard", "remove"):
        key = as_key(trace, args[0])
        if name == "remove" and key not in owner.items:
            raise Raised(Error(KeyError, [args[0]], is_exact=True))
        (add if name == "add" else _discard)(trace, owner, key)
        return Const(None)
    if name in (*_QUESTIONS, *_COMBINED):
        others = [trace.force(value) for value in args]
        given = [
            members(value) if isinstance(value, SetOf) else [as_key(trace, p) for p in trace.all_items(value)]
            for value in others
        ]
        if name in _QUESTIONS:
            return Const(getattr(owner.items, name)(*given))
        return SetOf(owner.kind, getattr(members(owner), name)(*given))
    if name == "update":
        for value in args:
            update(trace, owner, value)
        return Const(None)
    if name == "clear":
        trace.changing(owner)
        owner.items.clear()
        owner.log.append(("clear", None))
        return Const(None)
    raise Unsupported(f"the method {name} of a set")
