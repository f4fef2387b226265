"""Dicts that a ``torch.autograd.Function`` keeps on ctx and that others hold, too: a configuration, say.

Such a dict may be changed between forward and backward, and backward would read the other value. What backward reads
of it is a constant of the graph, as it was when forward ran; it is looked at again when the backward pass begins, which
raises where it is another by then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import torch

from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.entry.guards import same_constants
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.given_objects import CONSTANT_TYPES
from longhand.capture.bytecode.values.tracked import Const, Dict, Lazy, New, Obj, Seq, SetOf, Tensor, Value

__all__ = ["KeptDict", "keep_dicts", "watch_dicts"]

_HINT = "Keep a copy of it."
_MISSING = object()


@dataclasses.dataclass(frozen=True, eq=False)
class KeptDict:
    """A dict from outside, and what a backward reads of it.

    Attributes:
        name: The Function's name.
        attribute: What ctx calls the dict.
        owner: The dict.
        read: The value of each key that was read.
    """

    name: str
    attribute: str
    owner: Dict
    read: dict[Any, Any]


class _ReadItems(dict[Any, Value]):
    """The items of a kept dict: single ones may be read, and the trace learns which."""

    def __init__(self, trace: Trace, kept: KeptDict) -> None:
        super().__init__(kept.owner.items)
        self._trace, self._kept = trace, kept

    def __getitem__(self, key: Any) -> Value:
        self._trace.guard_key(self._kept.owner, key)
        value = super().__getitem__(key)
        if isinstance(value, Lazy) and value.source is not None:
            value = self._trace.wrap_fixed(value.value, value.source)  # as the call finds it
            super().__setitem__(key, value)
        if not isinstance(value, Const) or type(value.value) not in CONSTANT_TYPES:
            self._refuse()
        self._kept.read[key] = value.value
        return value

    def __contains__(self, key: Any) -> bool:
        if not super().__contains__(key):
            self._refuse()
        return self[key] is not None

    def __setitem__(self, key: Any, value: Value) -> None:
        if value is not self[key]:
            self._refuse()

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        kept = self._kept
        raise Unsupported(
            f"the backward of {kept.name} does more with ctx.{kept.attribute}, which others may change, than read "
            "numbers and texts of it",
            _HINT,
        )

    def __iter__(self) -> Iterator[Any]:
        self._refuse()

    def __len__(self) -> int:
        self._refuse()

    __delitem__ = __reversed__ = __eq__ = __or__ = __ror__ = __ior__ = _refuse
    keys = values = items = get = pop = popitem = clear = update = setdefault = copy = _refuse


def _is_followed(trace: Trace, value: Value) -> bool:
    """Whether what is read of it can be looked at again: a plain dict from outside, as it was before the call."""
    return (
        isinstance(value, Dict)
        and value.kind is dict
        and value.source is not None
        and not value.is_storage
        and not trace.is_changed(value)
    )


def keep_dicts(trace: Trace, name: str, args: list[Value], context: New) -> None:
    """What backward finds on ctx for such dicts: they themselves, read under the trace's eyes.

    Raises:
        Unsupported: Something else is kept on ctx that others may change.
    """
    held = list(context.attributes.values())
    _refuse_shared(
        trace, name, args, [value for value in held if not _is_followed(trace, trace.force(value))]
    )
    for attribute, value in context.attributes.items():
        owner = trace.force(value)
        if _is_followed(trace, owner):
            assert isinstance(owner, Dict)
            kept = KeptDict(name, attribute, owner, {})
            trace.kept_dicts.append(kept)
            context.attributes[attribute] = Dict(dict, _ReadItems(trace, kept))


def watch_dicts(
    results: Sequence[Any], kept: Sequence[tuple[str, str, dict[Any, Any], dict[Any, Any]]]
) -> None:
    """Makes the backward pass of a graph look first whether what it read of dicts is in them still.

    Args:
        results: What the graph gave, or wrote into.
        kept: The Function's name, what ctx calls the dict, the dict, what was read of it.
    """

    def look(_: Any) -> None:
        for name, attribute, owner, read in kept:
            for key, value in read.items():
                now = owner.get(key, _MISSING)
                if not same_constants((now,), (value,)):
                    raise RuntimeError(
                        f"longhand: the backward of {name} reads ctx.{attribute}[{key!r}], which was {value!r} when "
                        "its forward ran and has changed since: keep a copy of it on ctx."
                    )

    nodes = {
        id(r.grad_fn): r.grad_fn for r in results if isinstance(r, torch.Tensor) and r.grad_fn is not None
    }
    for node in nodes.values():
        node.register_prehook(look)


def _refuse_shared(trace: Trace, name: str, args: list[Value], held: list[Value]) -> None:
    """Containers that were there before may be changed before the backward runs."""
    shared = {id(value) for value in _reached(trace, args) if not isinstance(value, Tensor)}
    for value in _reached(trace, held):
        is_outside = value.source is not None and not isinstance(value, Tensor)
        if id(value) in shared or is_outside or isinstance(value, Obj):
            raise Unsupported(f"{name} keeps an object on ctx that others may change", _HINT)


def _reached(trace: Trace, values: list[Value]) -> list[Value]:
    """What can be changed among values, and in them: lists, dicts, sets, objects."""
    parts: dict[int, Value] = {}
    waiting = list(values)
    while waiting:
        value = trace.force(waiting.pop())
        if id(value) in parts:
            continue
        if isinstance(value, Seq):
            waiting += value.items
        elif isinstance(value, Dict):
            waiting += value.items.values()
        elif isinstance(value, New):
            waiting += value.attributes.values()
        if isinstance(value, Dict | SetOf | Obj | New) or (
            isinstance(value, Seq) and value.kind is not tuple
        ):
            parts[id(value)] = value
    return [value for value in parts.values() if not (isinstance(value, Seq) and value.kind is torch.Size)]
