"""What a capture knows of the objects that were there before: which it has looked at, and what holds of them."""

from __future__ import annotations

import abc
import collections
import enum
import types
from collections.abc import Iterator
from typing import Any

import torch

from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.entry.guards import Guards, same_constants
from longhand.capture.bytecode.values.sources import Source
from longhand.capture.bytecode.values.tracked import Dict, Iter, Lazy, Seq, Value

CONSTANT_TYPES = (
    int,
    float,
    bool,
    str,
    bytes,
    complex,
    type(None),
    type(Ellipsis),
    type(NotImplemented),
    torch.dtype,
    torch.layout,
    torch.memory_format,
    torch.device,
)
KEY_TYPES = (*CONSTANT_TYPES, enum.Enum, type, types.FunctionType)
DICTS = (dict, collections.OrderedDict, collections.defaultdict)
_NAMED_STORES = ("._modules", "._parameters", "._buffers", ".__dict__")


class GivenObjects(abc.ABC):
    """The objects from outside that were looked at.

    Attributes:
        guards: What holds of them.
        changed: Tracked values that the code has written to.
        by_id: What each became, by its id; `alive` keeps them.
    """

    def __init__(self) -> None:
        self.guards = Guards()
        self.changed: list[Value] = []
        self.by_id: dict[int, Value] = {}
        self.alive: list[Any] = []

    @abc.abstractmethod
    def wrap(self, value: Any, source: Source) -> Value:
        """The tracked value of a real one, with its guards."""

    def lazy(self, value: Any, source: Source) -> Lazy:
        return Lazy(value, source=source)

    def force(self, value: Value) -> Value:
        """Looks at a value: from here on guards hold it."""
        if not isinstance(value, Lazy):
            return value
        assert value.source is not None
        return self.wrap(value.value, value.source)

    def known(self, value: Any) -> Value | None:
        """What a real object became, if anything looked at it."""
        return self.by_id.get(id(value))

    def is_changed(self, value: Value) -> bool:
        """Whether the code has written to it."""
        return bool(getattr(value, "changed", False))

    def key_text(self, key: Any) -> str:
        """A dict's key as text for a source or guard."""
        is_plain = isinstance(key, str | int) and type(key) in (str, int, bool)
        text = repr(key) if is_plain else self.guards.constant(key)
        return text.replace("{", "{{").replace("}", "}}")

    def over_items(self, owner: Seq, position: int = 0, source: Source | None = None) -> Iter:
        """An iterator over a tracked sequence; it sees what happens to the sequence meanwhile."""
        made = Iter(iter(()), source=source)
        made.sequence, made.position = owner, position

        def pull() -> Iterator[Value]:
            while made.position < len(owner.items):
                part = self.force(owner.items[made.position])
                owner.items[made.position] = part
                made.position += 1
                if made.source is not None and not made.changed:
                    made.changed = True
                    self.changed.append(made)
                yield part
            made.position = -1
            if made.source is not None and not made.changed:
                made.changed = True
                self.changed.append(made)

        made.items = pull()
        return made

    def guard_keys(self, value: Dict) -> None:
        """The keys, and their order, matter."""
        if value.source is None:
            return
        for key in dict.keys(value.real):
            if not isinstance(key, KEY_TYPES):
                raise Unsupported("a dict from outside has objects as keys")
        keys = tuple(dict.keys(value.real))
        names = ", ".join(map(str, keys[:8]))
        listed = "tuple({})" if type(value.real) in DICTS else "tuple(dict.keys({}))"
        known = self.guards.constant(keys)
        condition = f"{listed} == {known}"
        if not value.source.step.endswith(
            _NAMED_STORES
        ):  # their keys are names; others' may be equal in another type
            condition = f"{self.guards.constant(same_constants)}({listed}, {known})"
        self.guards.add(value.source, condition, f"keys of {value.source.name}: {names}")

    def guard_key(self, value: Dict, key: Any) -> None:
        """Whether one key is there matters."""
        if value.source is None or value.changed:
            self.guard_keys(value)
            return
        is_in = "in" if dict.__contains__(value.real, key) else "not in"
        text = self.key_text(key)
        plain = type(value.real) in DICTS
        condition = f"{text} {is_in} {{}}" if plain else f"dict.__contains__({{}}, {text}) is {is_in == 'in'}"
        self.guards.add(value.source, condition, f"{key!r} {is_in} {value.source.name}")
