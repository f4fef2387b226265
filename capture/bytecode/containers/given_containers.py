"""Containers from outside: what a list, a dict or a set that was there before becomes, with the guards that hold it."""

from __future__ import annotations

import collections
from typing import Any

import torch

from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.entry.guards import same_constants
from longhand.capture.bytecode.values.given_objects import KEY_TYPES, GivenObjects
from longhand.capture.bytecode.values.sources import Source, attribute, item
from longhand.capture.bytecode.values.tracked import Dict, Seq, SetOf, Value


def given_sequence(trace: GivenObjects, value: Any, kind: type, source: Source) -> Value:
    """A list, a deque or a tuple: its length is guarded, each item when it is looked at."""
    if issubclass(kind, tuple) and kind not in (tuple, torch.Size) and not hasattr(kind, "_fields"):
        raise Unsupported(f"a value of type {kind.__qualname__} comes from outside")
    trace.guards.same_type(source, kind)
    if kind is collections.deque:
        trace.guards.add(source, f"{{}}.maxlen == {value.maxlen}")
    trace.guards.add(source, f"len({{}}) == {len(value)}", f"len({source.name}) == {len(value)}")
    items: list[Value] = [trace.lazy(part, item(source, i)) for i, part in enumerate(value)]
    return Seq(kind, items, real=value, source=source, maxlen=getattr(value, "maxlen", None))


def given_dict(trace: GivenObjects, value: Any, kind: type, source: Source) -> Value:
    """A dict: its keys are guarded when somebody looks at them."""
    trace.guards.same_type(source, kind)
    items: dict[Any, Value] = {}
    for key, part in value.items():
        items[key] = trace.lazy(part, source.then("{}[" + trace.key_text(key) + "]"))
    made = Dict(kind, items, real=value, source=source)
    if kind is collections.defaultdict:
        made.factory = trace.lazy(value.default_factory, attribute(source, "default_factory"))
    return made


def given_proxy(trace: GivenObjects, value: Any, source: Source) -> Value:
    """A read-only view of a dict: a dict with the same items, for nobody writes through it."""
    keys = trace.guards.constant(tuple(value))
    trace.guards.add(source, f"tuple({{}}) == {keys}", f"keys of {source.name}")
    items: dict[Any, Value] = {
        key: trace.lazy(part, source.then("{}[" + trace.key_text(key) + "]")) for key, part in value.items()
    }
    return Dict(dict, items, real=dict(value))


def given_set(trace: GivenObjects, value: Any, kind: type, source: Source) -> Value:
    """A set of constants: all of it is guarded."""
    if not all(isinstance(part, KEY_TYPES) for part in value):
        raise Unsupported("a set of objects comes from outside")
    trace.guards.same_type(source, kind)
    ordered = tuple(value)
    condition = f"{trace.guards.constant(same_constants)}(tuple({{}}), {trace.guards.constant(ordered)})"
    trace.guards.add(source, condition, f"{source.name} == {value!r}")
    return SetOf(kind, set(value) if kind is set else value, real=value, source=source)


def given_storage(trace: GivenObjects, value: Any, source: Source) -> Value | None:
    """What an instance of a subclass of dict or list holds."""
    if isinstance(value, dict):
        base = trace.guards.constant(base_of(type(value)))
        items: dict[Any, Value] = {}
        for key in dict.keys(value):
            text = trace.key_text(key)
            items[key] = trace.lazy(
                dict.__getitem__(value, key),
                source.then(f"{base}.__getitem__({{}}, {text})", "{}[" + text + "]"),
            )
        return Dict(base_of(type(value)), items, real=value, is_storage=True, source=source)
    if isinstance(value, list):
        trace.guards.add(source, f"list.__len__({{}}) == {list.__len__(value)}")
        parts: list[Value] = [
            trace.lazy(part, source.then(f"list.__getitem__({{}}, {i})", f"{{}}[{i}]"))
            for i, part in enumerate(list.__iter__(value))
        ]
        return Seq(list, parts, real=value, source=source)
    return None


def base_of(kind: type) -> type:
    """The built-in dict that a class derives from."""
    return collections.OrderedDict if issubclass(kind, collections.OrderedDict) else dict
