"""What classes say: looked up in the order of their bases, remembered, and held true in later calls."""

from __future__ import annotations

import types
from typing import Any

from longhand.capture.bytecode.calls.leaves import is_constant_object, is_torch_leaf
from longhand.capture.bytecode.hook import frame_hook

__all__ = ["MISSING", "ClassFacts", "ClassGuard", "find"]

MISSING = object()
_HEAP = 1 << 9
_CODE = (types.FunctionType, staticmethod, classmethod, property)


def find(kind: type, name: str, after: type | None = None) -> Any:
    """What a class's order of bases has under a name, unbound; MISSING if nothing.

    Args:
        after: Only bases that come after this one, as ``super()`` looks.
    """
    order = kind.__mro__
    for base in order if after is None else order[order.index(after) + 1 :]:
        if name in vars(base):
            return vars(base)[name]
    return MISSING


class ClassFacts:
    """Every look into a class during one capture."""

    def __init__(self) -> None:
        self._members: dict[tuple[type, str, type | None], Any] = {}

    def lookup(self, kind: type, name: str, after: type | None = None) -> Any:
        """As find(), and remembered."""
        member = find(kind, name, after)
        if kind.__flags__ & _HEAP:
            self._members[kind, name, after] = member
        return member

    def guard(self) -> ClassGuard:
        """The guard for what was found."""
        return ClassGuard(self._members)


class ClassGuard:
    """True while the classes say what they said.

    CPython numbers each version of a class, its bases included: while the numbers are the same nothing needs a look.

    Attributes:
        classes: The classes.
        tags: The numbers of their versions at which everything was found right.
    """

    def __init__(self, members: dict[tuple[type, str, type | None], Any]) -> None:
        self._members = members
        self.classes = tuple(dict.fromkeys(kind for kind, _, _ in members))
        self.tags = bytearray()
        self._note()

    def recheck(self) -> bool:
        """Looks again, since a class was changed in some way."""
        for (kind, name, after), known in self._members.items():
            now = find(kind, name, after)
            if now is known:
                continue
            # Data has guards of its own, where it was used.
            is_fixed = isinstance(known, _CODE) or is_constant_object(known) or is_torch_leaf(known)
            if known is MISSING or is_fixed or type(now) is not type(known):
                return False
        self._note()
        return True

    def _note(self) -> None:
        for kind in self.classes:
            getattr(kind, "longhand", None)  # CPython numbers a version when something is looked up
        self.tags[:] = frame_hook().type_tags(self.classes)
