"""What real objects become when the captured code meets them: tracked values, with the guards that hold them.

Everything starts as a lazy value: only what somebody looks at is guarded.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import re
import types
from typing import Any

import torch
from torch import fx

from longhand.capture import torch_private
from longhand.capture.bytecode.calls.leaves import is_constant_object, is_numpy_scalar, is_torch_leaf
from longhand.capture.bytecode.containers.given_containers import (
    given_dict,
    given_proxy,
    given_sequence,
    given_set,
    given_storage,
)
from longhand.capture.bytecode.containers.given_iterators import ITERATORS, given_iterator
from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.entry.shapes import DynamicSizes
from longhand.capture.bytecode.values.given_objects import CONSTANT_TYPES, DICTS, GivenObjects
from longhand.capture.bytecode.values.known_tensors import KnownTensors, can_be_given
from longhand.capture.bytecode.values.sources import Source, attribute, item, root
from longhand.capture.bytecode.values.tracked import (
    Bound,
    BoundMethod,
    Cell,
    Const,
    Func,
    IntRange,
    Obj,
    Slice,
    Sym,
    Tensor,
    Value,
)

__all__ = ["Wrapping"]

_COMPILED = "longhand.compiled.from_bytecode"  # the module of the classes of compiled functions and modules


@dataclasses.dataclass(frozen=True)
class InputOrigin:
    """What a placeholder's meta holds: the path it was found by, as Dynamo's graphs tell it."""

    source: Source


class Wrapping(GivenObjects):
    """The part of a capture that looks at real objects.

    Args:
        sizes: Which sizes are symbolic.
    """

    def __init__(self, sizes: DynamicSizes) -> None:
        super().__init__()
        self.graph = fx.Graph()
        self.environment = torch_private.ShapeEnv(duck_shape=sizes.equal_sizes_are_one)
        self.mode = torch_private.FakeTensorMode(shape_env=self.environment)
        self.sizes = sizes
        self.inputs: list[Tensor] = []
        self.input_words: set[str] = set()
        self.real_inputs: list[torch.Tensor] = []
        self.tensors: dict[int, Tensor] = {}
        self.values = KnownTensors()
        self.called: object = None  # the first argument of the frame
        self.is_guarded = False  # whether each call is asked if the guards hold
        self.n_changed_seen = 0  # how often something was reached that the code has written to

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
        if not isinstance(made, Const | Sym | IntRange | Slice):
            self.by_id[id(value)] = made
            self.alive.append(value)
        return made

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
            return BoundMethod(self.wrap(value.__func__, attribute(source, "__func__")), owner, source=source)
        if kind in (list, collections.deque) or issubclass(kind, tuple):
            return given_sequence(self, value, kind, source)
        if kind in DICTS:
            return given_dict(self, value, kind, source)
        if kind is types.MappingProxyType:  # nobody writes through it: what it shows is read
            self.guards.same_type(source, kind)
            return given_proxy(self, value, source)
        if kind in (set, frozenset):
            return given_set(self, value, kind, source)
        if kind is types.CellType:
            return self.cell(value, source, "")
        if kind is range:
            self.guards.equal(source, value)
            return IntRange(value, source=source)
        if kind is slice:
            self.guards.same_type(source, kind)
            parts = [self.wrap(getattr(value, n), attribute(source, n)) for n in ("start", "stop", "step")]
            return Slice((parts[0], parts[1], parts[2]), source=source)
        if kind in ITERATORS:
            return given_iterator(self, value, source)
        self.guards.same_type(source, kind)
        return Obj(value, given_storage(self, value, source), source=source)

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
        is_number = can_be_given(value, is_guarded=self.is_guarded)
        if is_number and self.sizes.is_steady(self.called, source.name, value):
            self.values.give(fake, value, source)
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


def _identifier(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_")
