"""What real objects become when the captured code meets them: tracked values, with the guards that hold them.

Everything starts as a lazy value: only what somebody looks at is guarded.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import re
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from longhand.capture import torch_private
from longhand.capture.bytecode.calls.leaves import is_constant_object, is_numpy_scalar, is_torch_leaf
from longhand.capture.bytecode.containers.given_iterators import ITERATORS, given_iterator
from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.entry.guards import Guards, same_constants
from longhand.capture.bytecode.entry.shapes import DynamicSizes
from longhand.capture.bytecode.values.sources import Source, attribute, item, root
from longhand.capture.bytecode.values.tracked import (
    Bound,
    Cell,
    Const,
    Dict,
    Func,
    Iter,
    Lazy,
    Method,
    Obj,
    Range,
    Seq,
    SetOf,
    Slice,
    Sym,
    Tensor,
    Value,
)

__all__ = ["CONSTANT_TYPES", "Wrapping", "base_of"]

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
_KEY_TYPES = (*CONSTANT_TYPES, enum.Enum, type, types.FunctionType)
_COMPILED = "longhand.compiled.from_bytecode"  # the module of the classes of compiled functions and modules
_DICTS = (dict, collections.OrderedDict, collections.defaultdict)
_NAMED_STORES = ("._modules", "._parameters", "._buffers", ".__dict__")


@dataclasses.dataclass(frozen=True)
class InputOrigin:
    """What a placeholder's meta holds: the path it was found by, as Dynamo's graphs tell it."""

    source: Source


class Wrapping:
    """The part of a capture that looks at real objects.

    Args:
        sizes: Which sizes are symbolic.
    """

    def __init__(self, sizes: DynamicSizes) -> None:
        self.graph = fx.Graph()
        self.environment = torch_private.ShapeEnv(duck_shape=sizes.equal_sizes_are_one)
        self.mode = torch_private.FakeTensorMode(shape_env=self.environment)
        self.guards = Guards()
        self.sizes = sizes
        self.inputs: list[Tensor] = []
        self.input_words: set[str] = set()
        self.real_inputs: list[torch.Tensor] = []
        self.tensors: dict[int, Tensor] = {}
        self.changed: list[Value] = []
        self.by_id: dict[int, Value] = {}
        self.alive: list[Any] = []
        self.n_changed_seen = 0  # how often something was reached that the code has written to

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

    def wrap(self, value: Any, source: Source) -> Value:
        """The tracked value of a real one, with its guards."""
        if id(value) in self.by_id:
            known = self.by_id[id(value)]
            if self.is_changed(known):
                self.n_changed_seen += 1
            if known.source is not None and known.source.expression() != source.expression():
                self._guard_alias(source, known)
            return known
        if type(value).__module__ == _COMPILED:  # it stands for what was compiled
            self.guards.same_type(source, type(value))
            inside = source.then("object.__getattribute__({}, '_original')", "{}")
            return self.wrap(object.__getattribute__(value, "_original"), inside)
        made = self._wrap(value, source)
        if not isinstance(made, Const | Sym | Range | Slice):
            self.by_id[id(value)] = made
            self.alive.append(value)
        return made

    def is_changed(self, value: Value) -> bool:
        """Whether the code has written to it."""
        return bool(getattr(value, "changed", False))

    def _guard_alias(self, source: Source, known: Value) -> None:
        assert known.source is not None
        self.guards.identity(source, known.source, is_same=True)

    def _wrap(self, value: Any, source: Source) -> Value:
        kind = type(value)
        if kind in CONSTANT_TYPES:
            if value is NotImplemented or value is Ellipsis:
                self.guards.same_object(source, value)
            else:
                self.guards.equal(source, value)
            return Const(value, source=source)
        if isinstance(value, torch.Tensor):
            return self._input(value, source)
        if is_numpy_scalar(value):
            self.guards.equal(source, value)
            return Const(value, source=source)
        if isinstance(value, torch.torch_version.TorchVersion):
            self.guards.same_object(source, value)
            return Const(value, source=source)
        if isinstance(value, enum.Enum) or is_constant_object(value) or is_torch_leaf(value):
            self.guards.same_object(source, value)
            return Const(value, source=source)
        if kind is types.FunctionType:
            return self.function(value, source)
        if kind is types.BuiltinFunctionType:  # a built-in method of an object
            self.guards.same_type(source, kind)
            self.guards.equal(attribute(source, "__name__"), value.__name__)
            return Bound(
                self.wrap(value.__self__, attribute(source, "__self__")), value.__name__, source=source
            )
        if kind is types.MethodType:
            self.guards.same_type(source, kind)
            owner = self.wrap(value.__self__, attribute(source, "__self__"))
            return Method(self.wrap(value.__func__, attribute(source, "__func__")), owner, source=source)
        if kind in (list, collections.deque) or issubclass(kind, tuple):
            return self._sequence(value, kind, source)
        if kind in _DICTS:
            return self._dict(value, kind, source)
        if kind is types.MappingProxyType:  # nobody writes through it: what it shows is read
            self.guards.same_type(source, kind)
            return self._proxy(value, source)
        if kind in (set, frozenset):
            return self._set(value, kind, source)
        if kind is types.CellType:
            return self.cell(value, source, "")
        if kind is range:
            self.guards.equal(source, value)
            return Range(value, source=source)
        if kind is slice:
            self.guards.same_type(source, kind)
            parts = [self.wrap(getattr(value, n), attribute(source, n)) for n in ("start", "stop", "step")]
            return Slice((parts[0], parts[1], parts[2]), source=source)
        if kind in ITERATORS:
            return given_iterator(self, value, source)
        self.guards.same_type(source, kind)
        return Obj(value, self._storage(value, source), source=source)

    def _storage(self, value: Any, source: Source) -> Value | None:
        """What an instance of a subclass of dict or list holds."""
        if isinstance(value, dict):
            base = self.guards.constant(base_of(type(value)))
            items: dict[Any, Value] = {}
            for key in dict.keys(value):
                text = self._key_text(key)
                items[key] = self.lazy(
                    dict.__getitem__(value, key),
                    source.then(f"{base}.__getitem__({{}}, {text})", "{}[" + text + "]"),
                )
            return Dict(base_of(type(value)), items, real=value, is_storage=True, source=source)
        if isinstance(value, list):
            self.guards.add(source, f"list.__len__({{}}) == {list.__len__(value)}")
            parts: list[Value] = [
                self.lazy(part, source.then(f"list.__getitem__({{}}, {i})", f"{{}}[{i}]"))
                for i, part in enumerate(list.__iter__(value))
            ]
            return Seq(list, parts, real=value, source=source)
        return None

    def _key_text(self, key: Any) -> str:
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

    def function(self, value: types.FunctionType, source: Source | None) -> Func:
        """A function that was there before; its code and globals are guarded, cells and defaults when used."""
        if source is not None:
            if "<locals>" in value.__qualname__ or value.__closure__:
                self.guards.same_type(source, types.FunctionType)
                self.guards.same_object(attribute(source, "__code__"), value.__code__)
                self.guards.same_object(attribute(source, "__globals__"), value.__globals__)
            else:
                self.guards.same_object(source, value)
        here = source or root(self.guards.constant(value), value.__qualname__)
        defaults = [
            self.lazy(default, item(attribute(here, "__defaults__"), position))
            for position, default in enumerate(value.__defaults__ or ())
        ]
        keyword_defaults = {
            key: self.lazy(default, item(attribute(here, "__kwdefaults__"), key))
            for key, default in (value.__kwdefaults__ or {}).items()
        }
        cells = [
            self.cell(cell, item(attribute(here, "__closure__"), position), name)
            for position, (name, cell) in enumerate(
                zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
            )
        ]
        return Func(
            value.__code__,
            value.__globals__,
            value.__name__,
            list(defaults),
            dict(keyword_defaults),
            cells,
            real=value,
            source=source,
        )

    def cell(self, cell: Any, source: Source, name: str) -> Cell:
        """A cell that was there before. Two paths to one cell are one tracked cell."""
        if id(cell) in self.by_id:
            known = self.by_id[id(cell)]
            assert isinstance(known, Cell)
            return known
        inside = source.then("{}.cell_contents", "{}")
        try:
            content: Value | None = self.lazy(cell.cell_contents, inside)
        except ValueError:
            content = None
        made = Cell(content, name, real=cell, source=source)
        self.by_id[id(cell)] = made
        self.alive.append(cell)
        return made

    def _sequence(self, value: Any, kind: type, source: Source) -> Value:
        if issubclass(kind, tuple) and kind not in (tuple, torch.Size) and not hasattr(kind, "_fields"):
            raise Unsupported(f"a value of type {kind.__qualname__} comes from outside")
        self.guards.same_type(source, kind)
        if kind is collections.deque:
            self.guards.add(source, f"{{}}.maxlen == {value.maxlen}")
        self.guards.add(source, f"len({{}}) == {len(value)}", f"len({source.name}) == {len(value)}")
        items: list[Value] = [self.lazy(part, item(source, i)) for i, part in enumerate(value)]
        return Seq(kind, items, real=value, source=source, maxlen=getattr(value, "maxlen", None))

    def _dict(self, value: Any, kind: type, source: Source) -> Value:
        self.guards.same_type(source, kind)
        items: dict[Any, Value] = {}
        for key, part in value.items():
            items[key] = self.lazy(part, source.then("{}[" + self._key_text(key) + "]"))
        made = Dict(kind, items, real=value, source=source)
        if kind is collections.defaultdict:
            made.factory = self.lazy(value.default_factory, attribute(source, "default_factory"))
        return made

    def _proxy(self, value: Any, source: Source) -> Value:
        """A read-only view of a dict: a dict with the same items, for nobody writes through it."""
        keys = self.guards.constant(tuple(value))
        self.guards.add(source, f"tuple({{}}) == {keys}", f"keys of {source.name}")
        items: dict[Any, Value] = {
            key: self.lazy(part, source.then("{}[" + self._key_text(key) + "]"))
            for key, part in value.items()
        }
        return Dict(dict, items, real=dict(value))

    def _set(self, value: Any, kind: type, source: Source) -> Value:
        if not all(isinstance(part, _KEY_TYPES) for part in value):
            raise Unsupported("a set of objects comes from outside")
        self.guards.same_type(source, kind)
        ordered = tuple(value)
        condition = f"{self.guards.constant(same_constants)}(tuple({{}}), {self.guards.constant(ordered)})"
        self.guards.add(source, condition, f"{source.name} == {value!r}")
        return SetOf(kind, set(value) if kind is set else value, real=value, source=source)

    def guard_keys(self, value: Dict) -> None:
        """The keys, and their order, matter."""
        if value.source is None:
            return
        for key in dict.keys(value.real):
            if not isinstance(key, _KEY_TYPES):
                raise Unsupported("a dict from outside has objects as keys")
        keys = tuple(dict.keys(value.real))
        names = ", ".join(map(str, keys[:8]))
        listed = "tuple({})" if type(value.real) in _DICTS else "tuple(dict.keys({}))"
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
        text = self._key_text(key)
        plain = type(value.real) in _DICTS
        condition = f"{text} {is_in} {{}}" if plain else f"dict.__contains__({{}}, {text}) is {is_in == 'in'}"
        self.guards.add(value.source, condition, f"{key!r} {is_in} {value.source.name}")

    def _input(self, value: torch.Tensor, source: Source) -> Tensor:
        kind = type(value)
        if kind not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
            raise Unsupported(f"a tensor subclass, {kind.__qualname__}, comes from outside")
        if (
            value.layout is not torch.strided
            or value.is_quantized
            or value.is_neg()
            or isinstance(value, torch_private.FakeTensor)
        ):
            raise Unsupported("a tensor that is not plain and strided comes from outside")
        if value.is_inference() and not torch.is_inference_mode_enabled():
            raise Unsupported("an inference tensor comes from outside")
        static = self.sizes.static_dims(source.name, value, is_held=source.is_buffer)
        self.guards.tensor(source, value, static)
        fake = self.sizes.fake(self.mode, value, static)
        node = self.graph.placeholder(self._input_word(source.name))
        node.meta["example_value"] = fake
        node.meta["grapharg"] = InputOrigin(source)
        made = Tensor(node, fake, kind, source=source)
        self.inputs.append(made)
        self.real_inputs.append(value)
        self.tensors[id(fake)] = made
        return made

    def _input_word(self, name: str) -> str:
        """An identifier for a place: those of ``d['a b']`` and ``d['a_b']`` must differ."""
        first = word = _identifier(name)
        count = 1
        while word in self.input_words:
            word, count = f"{first}_{count}", count + 1
        self.input_words.add(word)
        return word


def base_of(kind: type) -> type:
    """The built-in dict that a class derives from."""
    return collections.OrderedDict if issubclass(kind, collections.OrderedDict) else dict


def _identifier(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_")
