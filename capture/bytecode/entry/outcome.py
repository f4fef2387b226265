"""The Python function that runs instead of a captured frame: guards, the graph, side effects, and how it ends."""

from __future__ import annotations

import builtins
import collections
import functools
import itertools
import types
import weakref
from typing import Any

import torch

from longhand.capture import torch_private
from longhand.capture.bytecode.entry.breaks import SkipFrame
from longhand.capture.bytecode.entry.shapes import size_text
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.sources import Source
from longhand.capture.bytecode.values.tracked import (
    Array,
    Bound,
    BoundMethod,
    Cell,
    ClassDefinition,
    Const,
    Dict,
    DictView,
    Error,
    Func,
    IntRange,
    Iter,
    Lazy,
    New,
    Null,
    Obj,
    PartialCall,
    RandomNumber,
    Seq,
    SetOf,
    Slice,
    Super,
    Sym,
    Tensor,
    TextPart,
    UnreadText,
    Value,
    WeakReference,
    kind_word,
)

__all__ = ["OutcomeWriter"]

_LITERALS = (int, bool, str, bytes, type(None), type(Ellipsis))


class OutcomeWriter:
    """Writes the lines that make tracked values real again.

    Args:
        trace: What was captured.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.lines: list[str] = []
        self.effects: list[str] = []
        self.late: list[str] = []
        self.outputs: list[Any] = []
        self._memo: dict[Value, str] = {}
        self._loaded: dict[str, str] = {}
        self._n_names = 0

    def inputs(self) -> list[tuple[str, Any]]:
        """(name, fake) of each input of the graph."""
        return [(f"i{k}", tensor.fake) for k, tensor in enumerate(self.trace.inputs)]

    def _name(self) -> str:
        self._n_names += 1
        return f"t{self._n_names}"

    def let(self, text: str) -> str:
        """A line that gives the text's value a name."""
        name = self._name()
        self.lines.append(f"{name} = {text}")
        return name

    def constant(self, value: Any) -> str:
        return self.trace.guards.constant(value)

    def load(self, source: Source) -> str:
        """The name of what stands at a place before the call; it is read once."""
        text = source.expression()
        if text not in self._loaded:
            self._loaded[text] = self.let(text)
        return self._loaded[text]

    def expression(self, value: Value) -> str:
        """Text that gives the value. What has an identity is made once."""
        if value in self._memo:
            return self._memo[value]
        text = self._expression(value)
        self._memo[value] = text
        return text

    def skipping(self, iterator: str, n_passed: int) -> str:
        """The text of an iterator from which some items were taken."""
        name = self.let(iterator)
        if n_passed:
            self.lines.append(f"next({self.constant(itertools.islice)}({name}, {n_passed - 1}, None))")
        return name

    def texts_of(self, values: Any) -> str:
        """The items of a tuple's text, each with its comma."""
        return "".join(self.expression(value) + ", " for value in values)

    def _expression(self, value: Value) -> str:
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, Lazy):
            assert value.source is not None
            if self.trace.known(value.value) is not None:
                return self.expression(self.trace.force(value))  # guarded: it is that very object
            return self.load(value.source)
        if isinstance(value, Const):
            return (
                repr(value.value)
                if isinstance(value.value, _LITERALS) and type(value.value) in _LITERALS
                else (self.constant(value.value))
            )
        if isinstance(value, RandomNumber):
            for earlier in self.trace.draws[: self.trace.draws.index(value)]:
                self.expression(earlier)  # first: all come from one generator
            given = [repr(part) for part in value.args] + [f"{key}={part!r}" for key, part in value.keywords]
            return self.let(f"{self.constant(value.function)}({', '.join(given)})")
        if isinstance(value, Sym):
            return self.let(size_text(value.fake, self.inputs()))
        if value.source is not None and not isinstance(value, PartialCall):
            return self.load(value.source)
        if isinstance(value, Seq):
            return self._sequence(value)
        if isinstance(value, Dict):
            return self._dict(value)
        if isinstance(value, SetOf):
            if list(value.kind(list(value.items))) != list(value.items):
                raise SkipFrame("a set whose order comes from its history cannot be made again")
            return self.let(f"{self.constant(value.kind)}({self._keys(value)})")
        if isinstance(value, New):
            return self._instance(value)
        if isinstance(value, Func):
            return self._function(value)
        if isinstance(value, Cell):
            return self._cell(value)
        return self._small(value)

    def _small(self, value: Value) -> str:
        if isinstance(value, IntRange):
            return self.constant(value.value)
        if isinstance(value, Array):
            return self.let(f"{self.constant(value.value)}.copy(order='K')")
        if isinstance(value, Slice):
            return f"slice({self.texts_of(value.parts)})"
        if isinstance(value, BoundMethod):
            pair = f"{self.expression(value.function)}, {self.expression(value.owner)}"
            return self.let(f"{self.constant(types.MethodType)}({pair})")
        if isinstance(value, Bound) and not isinstance(value.owner, Super):
            return self.let(f"getattr({self.expression(value.owner)}, {value.name!r})")
        if isinstance(value, ClassDefinition):
            given = f"{self.expression(value.body)}, {value.name!r}, {self.texts_of(value.bases)}"
            return self.let(f"{self.constant(builtins.__build_class__)}({given})")
        if isinstance(value, WeakReference):
            return self.let(f"{self.constant(weakref.ref)}({self.texts_of(value.args)})")
        if isinstance(value, PartialCall):
            named = "".join(f"{key}={self.expression(part)}, " for key, part in value.keywords.items())
            given = f"{self.expression(value.function)}, {self.texts_of(value.args)}{named}"
            return self.let(f"{self.constant(functools.partial)}({given})")
        if isinstance(value, Iter) and value.sequence is not None and value.sequence.kind in (list, tuple):
            if value.position < 0:
                return self.let("iter(())")
            name = self.let(f"iter({self.expression(value.sequence)})")
            self.late.append(f"{name}.__setstate__({value.position})")
            return name
        if isinstance(value, Iter) and value.remake is not None and not value.is_broken:
            return self.let(value.remake(self))
        if isinstance(value, Iter) and value.is_fixed:
            return self.let(f"iter([{self.texts_of(value.items)}])")
        if isinstance(value, UnreadText):
            return self.let(_joined(self, value))
        if isinstance(value, Error) and not value.attributes:
            return self.let(f"{self.constant(value.kind)}({self.texts_of(value.args)})")
        if isinstance(value, Obj):
            return self.constant(value.value)
        raise SkipFrame(f"a {kind_word(value)} cannot be made again after the graph")

    def _tensor(self, value: Tensor) -> str:
        if value.node.op == "placeholder":
            return f"i{self.trace.inputs.index(value)}"
        if value.node in self.trace.inner:
            raise SkipFrame(self.trace.inner[value.node])
        if value.node not in self.outputs:
            self.outputs.append(value.node)
        return f"g{self.outputs.index(value.node)}"

    def _sequence(self, value: Seq) -> str:
        if value.kind is list or value.kind is collections.deque:
            made = "[]" if value.kind is list else f"{self.constant(value.kind)}(maxlen={value.maxlen})"
            name = self.let(made)
            self._memo[value] = name
            self.lines.append(f"{name}.extend(({self.texts_of(value.items)}))" if value.items else "pass")
            return name
        if isinstance(value, DictView) and not value.owner.is_storage:
            return self.let(f"{self.expression(value.owner)}.{value.word}()")
        if value.kind is tuple:
            return f"({self.texts_of(value.items)})" if value.items else "()"
        if value.kind is torch.Size or value.kind.__module__ == "torch.return_types":
            return f"{self.constant(value.kind)}(({self.texts_of(value.items)}))"
        if hasattr(value.kind, "_fields"):
            return self.let(f"{self.constant(value.kind)}({self.texts_of(value.items)})")
        raise SkipFrame(f"a {value.kind.__qualname__} cannot be made again after the graph")

    def pairs(self, value: Dict) -> str:
        """The text of a tuple of (key, value)."""
        made = []
        for key, part in value.items.items():
            tracked = value.keys.get(key)
            text = self.expression(tracked) if tracked is not None else self.key(key)
            made.append(f"({text}, {self.expression(part)}), ")
        return "(" + "".join(made) + ")"

    def _keys(self, value: SetOf) -> str:
        return "(" + "".join(f"{self.key(key)}, " for key in value.items) + ")"

    def key(self, key: Any) -> str:
        """The text of a key of a dict or set, tracked or plain."""
        if isinstance(key, Value):
            return self.expression(key)
        return repr(key) if type(key) in _LITERALS else self.constant(key)

    def _dict(self, value: Dict) -> str:
        if value.kind is collections.defaultdict:
            factory = self.expression(value.factory) if value.factory is not None else "None"
            name = self.let(f"{self.constant(value.kind)}({factory})")
        else:
            name = self.let(f"{self.constant(value.kind)}()" if value.kind is not dict else "{}")
        self._memo[value] = name
        if value.items:
            self.lines.append(f"{name}.update({self.pairs(value)})")
        return name

    def _instance(self, value: New) -> str:
        kind = self.constant(value.kind)
        base = value.storage.kind if isinstance(value.storage, Dict | Seq) else object
        name = self.let(f"{self.constant(base)}.__new__({kind})")
        self._memo[value] = name
        if isinstance(value.storage, Dict):
            for key, part in value.storage.items.items():
                given = f"{self.key(key)}, {self.expression(part)}"
                self.lines.append(f"{self.constant(base)}.__setitem__({name}, {given})")
        elif isinstance(value.storage, Seq) and value.storage.items:
            parts = self.texts_of(value.storage.items)
            self.lines.append(f"{self.constant(base)}.extend({name}, ({parts}))")
        for attribute, part in value.attributes.items():
            self.lines.append(f"object.__setattr__({name}, {attribute!r}, {self.expression(part)})")
        return name

    def _function(self, value: Func) -> str:
        if value.real is not None:
            return self.constant(value.real)
        closure = f"({self.texts_of(value.closure)})" if value.closure else "None"
        defaults = f"({self.texts_of(value.defaults)})" if value.defaults else "None"
        parts = f"{self.constant(value.code)}, {self.constant(value.globals)}, {value.name!r}, {defaults}, {closure}"
        name = self.let(f"{self.constant(types.FunctionType)}({parts})")
        self._memo[value] = name
        if value.keyword_defaults:
            pairs = "".join(
                f"{key!r}: {self.expression(part)}, " for key, part in value.keyword_defaults.items()
            )
            self.lines.append(f"{name}.__kwdefaults__ = {{{pairs}}}")
        for attribute, part in (value.special | value.attributes).items():
            self.lines.append(f"setattr({name}, {attribute!r}, {self.expression(part)})")
        return name

    def _cell(self, value: Cell) -> str:
        name = self.let(f"{self.constant(types.CellType)}()")
        self._memo[value] = name
        if value.content is not None:
            self.lines.append(f"{name}.cell_contents = {self.expression(value.content)}")
        return name


def _joined(outcome: OutcomeWriter, text: UnreadText) -> str:
    """The text of a string that names tensors."""
    made = []
    for part in text.parts:
        if isinstance(part, TextPart):
            now = None if part.version is None else torch_private.version(part.value.fake)
            if now != part.version or (now is None and outcome.trace.written()):
                raise SkipFrame("a text names a tensor that was written to afterwards")
            made.append(f"{outcome.constant(part.made)}({outcome.expression(part.value)}), ")
        else:
            made.append(f"{part!r}, ")
    return f"''.join(({''.join(made)}))"


def is_null(value: Value) -> bool:
    return isinstance(value, Null)
