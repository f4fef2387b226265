"""Views of dicts and iterators over them: both see what happens to the dict meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from longhand.capture.bytecode.entry.breaks import SkipFrame, Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.constants import from_key
from longhand.capture.bytecode.values.tracked import Dict, DictView, Iter, Seq, Value

__all__ = ["VIEW_TYPES", "iterate", "view"]

_EMPTY: dict[Any, Any] = {}
_TYPES = {"keys": type(_EMPTY.keys()), "values": type(_EMPTY.values()), "items": type(_EMPTY.items())}
VIEW_TYPES = tuple(_TYPES.values())


def _part(trace: Trace, owner: Dict, key: Any, word: str) -> Value:
    tracked = owner.keys.get(key) or from_key(trace, key)
    if word == "keys":
        return tracked
    return owner.items[key] if word == "values" else Seq(tuple, [tracked, owner.items[key]])


def view(trace: Trace, owner: Dict, word: str) -> DictView:
    """``owner.keys()``, ``.values()`` or ``.items()``."""
    return DictView(
        _TYPES[word], owner, word, lambda: [_part(trace, owner, key, word) for key in owner.items]
    )


def iterate(trace: Trace, owner: Dict, word: str = "keys") -> Iter:
    """``iter(owner.keys())`` and the like."""
    trace.guard_keys(owner)
    keys = list(owner.items)
    n_passed = [0]

    def check() -> None:
        if list(owner.items) != keys:
            raise Unsupported("a dict gets or loses keys while it is iterated over")

    def pull() -> Iterator[Value]:
        for key in keys:
            check()
            n_passed[0] += 1
            yield trace.force(_part(trace, owner, key, word))
        check()
        n_passed[0] = -1

    def remake(outcome: Any) -> str:
        if n_passed[0] < 0:
            return "iter(())"
        if list(owner.items) != keys:
            raise SkipFrame("a dict gets or loses keys while it is iterated over")
        if owner.is_storage or (owner.source is not None and owner.changed):
            raise SkipFrame("an iterator over a dict that was changed is alive at a graph break")
        return outcome.skipping(f"iter({outcome.expression(owner)}.{word}())", n_passed[0])

    return Iter(pull(), remake=remake)
