"""Iterators that were there before the call: what is left of them is read without touching them.

An iterator over a list or tuple is set to its new position when the call ends; of any other as many items are taken
as the code took.
"""

from __future__ import annotations

import collections
import copy
from collections.abc import Iterator
from typing import Any

from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.values.given_objects import GivenObjects
from longhand.capture.bytecode.values.sources import Source, item
from longhand.capture.bytecode.values.tracked import Const, Dict, Iter, Lazy, Seq, Value

__all__ = ["ITERATORS", "given_iterator"]

_EMPTY: list[Any] = []
_OVER_ITEMS = (type(iter(_EMPTY)), type(iter(tuple(_EMPTY))))
_LAYERED = (enumerate, zip)
_MAPPINGS: tuple[dict[Any, Any], ...] = ({}, collections.OrderedDict())
_OVER_DICTS = tuple(
    type(iter(view)) for made in _MAPPINGS for view in (made.keys(), made.values(), made.items())
)
_OVER_CONSTANTS = (type(iter("a")), type(iter("\u00e9")), type(iter(b"")), type(iter(range(1))))
ITERATORS = frozenset((*_OVER_ITEMS, *_LAYERED, *_OVER_DICTS, *_OVER_CONSTANTS))


def given_iterator(trace: GivenObjects, value: Any, source: Source) -> Iter:
    """The tracked iterator of a real one."""
    if type(value) in _OVER_ITEMS:
        return _over_items(trace, value, source)
    made = Iter(iter(()), source=source)
    left = _left_of(trace, value, source)

    def pull() -> Iterator[Value]:
        for part in left:
            made.position += 1
            if not made.changed:
                made.changed = True
                trace.changed.append(made)
            yield part

    made.items = pull()
    return made


def _over_items(trace: GivenObjects, value: Any, source: Source) -> Iter:
    """An iterator over a list or tuple: the same items from the same position on."""
    trace.guards.same_type(source, type(value))
    reduced = value.__reduce__()
    parts = source.then("{}.__reduce__()", "{}")
    trace.guards.add(parts, f"len({{}}) == {len(reduced)}", f"{source.name} is at its end or not, as before")
    if len(reduced) == 2:
        return Iter(iter(()), source=source)
    trace.guards.add(parts, f"{{}}[2] == {reduced[2]}", f"{source.name} is at position {reduced[2]}")
    owner = trace.wrap(reduced[1][0], parts.then("{}[1][0]", "{}"))
    assert isinstance(owner, Seq)
    return trace.over_items(owner, reduced[2], source)


def _left_of(trace: GivenObjects, value: Any, source: Source) -> Iterator[Value]:
    """What an iterator will give; it is not touched."""
    kind = type(value)
    trace.guards.same_type(source, kind)
    try:
        reduced = value.__reduce__()
    except RuntimeError:
        raise Unsupported("a dict got or lost keys while it was iterated over") from None
    parts = source.then("{}.__reduce__()", "{}")
    trace.guards.add(parts, f"len({{}}) == {len(reduced)}", f"{source.name} is at its end or not, as before")
    inside = parts.then("{}[1]", "{}")
    if kind is enumerate:
        start = reduced[1][1]
        trace.guards.add(inside, f"{{}}[1] == {start}", f"{source.name} is at number {start}")
        numbered = enumerate(_left_of(trace, reduced[1][0], inside.then("{}[0]", "{}")), start)
        return (Seq(tuple, [Const(number), part]) for number, part in numbered)
    if kind is zip and len(reduced) == 2:
        rows = [_left_of(trace, one, inside.then(f"{{}}[{i}]", "{}")) for i, one in enumerate(reduced[1])]
        return (Seq(tuple, list(row)) for row in zip(*rows, strict=False))
    if kind in _OVER_ITEMS:
        if len(reduced) == 2:
            return iter(())
        trace.guards.add(parts, f"{{}}[2] == {reduced[2]}", f"{source.name} is at position {reduced[2]}")
        owner = trace.wrap(reduced[1][0], inside.then("{}[0]", "{}"))
        assert isinstance(owner, Seq)
        return trace.over_items(owner, reduced[2]).items
    if kind in _OVER_CONSTANTS:
        trace.guards.add(parts, "{} == " + trace.guards.constant(reduced), f"{source.name} is where it was")
        return map(Const, copy.copy(value))
    if kind in _OVER_DICTS:
        rest = inside.then("{}[0]", "{}")
        trace.guards.add(rest, f"len({{}}) == {len(reduced[1][0])}", f"what is left of {source.name}")
        left = [trace.lazy(part, item(rest, i)) for i, part in enumerate(reduced[1][0])]
        return _unless_changed(trace, left)
    raise Unsupported(f"an iterator of type {kind.__qualname__} comes from outside")


def _unless_changed(trace: GivenObjects, left: list[Lazy]) -> Iterator[Value]:
    """What is left of an iterator over a dict, as long as no dict is written to: it may be that one."""
    for position in range(len(left) + 1):
        if any(isinstance(value, Dict) for value in trace.changed):
            raise Unsupported("a dict is written to while an iterator over one goes on")
        if position < len(left):
            yield trace.force(left[position])
