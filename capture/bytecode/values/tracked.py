"""Tracked values: what the symbolic interpreter knows of each stack slot, local, cell and attribute."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from types import CodeType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import fx

from longhand.capture.bytecode.values.sources import Source

__all__ = [
    "NULL",
    "Array",
    "Bound",
    "BoundMethod",
    "Cell",
    "ClassDefinition",
    "Const",
    "Dict",
    "DictView",
    "Error",
    "Func",
    "IntRange",
    "Iter",
    "Lazy",
    "New",
    "Null",
    "Obj",
    "PartialCall",
    "Seq",
    "SetOf",
    "Slice",
    "Super",
    "Sym",
    "Tensor",
    "TextPart",
    "UnreadText",
    "Value",
    "WeakReference",
    "kind_word",
]


@dataclasses.dataclass(eq=False)
class Value:
    """A value of the user's program.

    Attributes:
        source: Where it came from, if it was there before the call.
    """

    source: Source | None = dataclasses.field(default=None, kw_only=True)


@dataclasses.dataclass(eq=False)
class Null(Value):
    """CPython's NULL on the stack."""


NULL = Null()


@dataclasses.dataclass(eq=False)
class Lazy(Value):
    """A value from outside that nobody has looked at yet: no guard is needed for it."""

    value: Any


@dataclasses.dataclass(eq=False)
class Const(Value):
    """A known immutable value, or a function, class or module that is known by identity."""

    value: Any


@dataclasses.dataclass(eq=False)
class Array(Value):
    """An array of numpy's that the captured code made of known numbers; `value` cannot be written to."""

    value: Any


@dataclasses.dataclass(eq=False)
class Tensor(Value):
    """A tensor: a node of the graph with its fake value."""

    node: fx.Node
    fake: Any
    kind: type


@dataclasses.dataclass(eq=False)
class Sym(Value):
    """A symbolic int, float or bool."""

    node: Any
    fake: Any


@dataclasses.dataclass(eq=False)
class Seq(Value):
    """A list, tuple, torch.Size, deque or named tuple.

    Attributes:
        maxlen: Of a deque, how many items it keeps; None: all.
    """

    kind: type
    items: list[Value]
    changed: bool = False
    real: Any = None
    maxlen: int | None = dataclasses.field(default=None, kw_only=True)


@dataclasses.dataclass(eq=False)
class Dict(Value):
    """A dict, OrderedDict or defaultdict; keys are Python values.

    Attributes:
        is_storage: It is what an instance of a subclass holds.
        follows: It holds an object's attributes, to which the code wrote by name: that write changes the real one.
    """

    kind: type
    items: dict[Any, Value]
    changed: bool = False
    real: Any = None
    factory: Value | None = None
    is_storage: bool = False
    follows: bool = False
    keys: dict[Any, Value] = dataclasses.field(default_factory=dict)

    def remove(self, key: Any) -> Value:
        """``pop(key)`` of a key that is there."""
        self.keys.pop(key, None)
        return self.items.pop(key)

    def merge(self, other: Dict) -> None:
        """``update(other)``: of equal keys the first stays."""
        for key in other.keys:
            if key not in self.items:
                self.keys[key] = other.keys[key]
        self.items.update(other.items)


class DictView(Seq):
    """``keys()``, ``values()`` or ``items()`` of a dict: it shows what the dict holds now.

    Attributes:
        owner: The dict.
        word: The method's name.
    """

    def __init__(self, kind: type, owner: Dict, word: str, parts: Callable[[], list[Value]]) -> None:
        self.source = None
        self.kind, self.owner, self.word, self._parts = kind, owner, word, parts
        self.changed, self.real, self.maxlen = False, None, None

    @property
    def items(self) -> list[Value]:  # type: ignore[override]
        return self._parts()


@dataclasses.dataclass(eq=False)
class SetOf(Value):
    """A set or frozenset of Python values.

    Attributes:
        items: A real set that went through the same.
        log: What was done to it, in order: ("add", key), ("discard", key), ("clear", None).
    """

    kind: type
    items: Any
    changed: bool = False
    real: Any = None
    log: list[tuple[str, Any]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False)
class Slice(Value):
    """A slice of tracked values."""

    parts: tuple[Value, Value, Value]


@dataclasses.dataclass(frozen=True)
class TextPart:
    """What a text says of a tensor.

    Attributes:
        made: Gives it.
        version: How often the tensor was written to when the text was made; None where that is not counted.
    """

    value: Tensor
    made: Callable[[Any], str]
    version: int | None


@dataclasses.dataclass(eq=False)
class UnreadText(Value):
    """A string that names values of tensors; nobody has read it so far."""

    parts: list[str | TextPart]


@dataclasses.dataclass(eq=False)
class RandomNumber(Value):
    """A number that Python's generator draws in each call; nobody has read it so far."""

    function: Any
    args: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...]


@dataclasses.dataclass(eq=False)
class IntRange(Value):
    """A range of known ints."""

    value: range


@dataclasses.dataclass(eq=False)
class Obj(Value):
    """An object that was there before the call; attributes written since are in the trace.

    Attributes:
        storage: What it holds as a dict or list, if its class derives from one of those.
    """

    value: Any
    storage: Value | None = None


@dataclasses.dataclass(eq=False)
class New(Value):
    """An instance of a Python class that the captured code made.

    Attributes:
        storage: What it holds as a dict, list or tuple, if its class derives from one of those.
    """

    kind: type
    attributes: dict[str, Value] = dataclasses.field(default_factory=dict)
    storage: Value | None = None


@dataclasses.dataclass(eq=False)
class Error(Value):
    """An exception that the captured code made.

    Attributes:
        is_exact: Its arguments are those of eager's; the messages of what capture itself raises may differ.
    """

    kind: type
    args: list[Value]
    is_exact: bool = dataclasses.field(default=False, kw_only=True)
    attributes: dict[str, Value] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(eq=False)
class Cell(Value):
    """A closure cell; `real` is the cell itself if it was there before."""

    content: Value | None
    name: str
    real: Any = None
    changed: bool = False


@dataclasses.dataclass(eq=False)
class Func(Value):
    """A Python function, made by the captured code or there before (`real`).

    Attributes:
        attributes: Its own dict.
        special: What was written over its ``__name__`` and the like.
    """

    code: CodeType
    globals: dict[str, Any]
    name: str
    defaults: list[Value]
    keyword_defaults: dict[str, Value]
    closure: list[Cell]
    real: Any = None
    attributes: dict[str, Value] = dataclasses.field(default_factory=dict)
    special: dict[str, Value] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(eq=False)
class ClassDefinition(Value):
    """A class that the captured code defines, and that nobody has looked into."""

    body: Func
    name: str
    bases: list[Value]


@dataclasses.dataclass(eq=False)
class BoundMethod(Value):
    """A function bound to an object."""

    function: Value
    owner: Value


@dataclasses.dataclass(eq=False)
class Bound(Value):
    """A built-in method, by name, of a tracked value: ``x.relu``, ``items.append``."""

    owner: Value
    name: str


@dataclasses.dataclass(eq=False)
class PartialCall(Value):
    """functools.partial."""

    function: Value
    args: list[Value]
    keywords: dict[str, Value]


@dataclasses.dataclass(eq=False)
class WeakReference(PartialCall):
    """weakref.ref of an object that the captured code made: called, it gives the one of its `args`."""


@dataclasses.dataclass(eq=False)
class Super(Value):
    """``super()``: attributes of `owner` that come after `kind` in the order of its class."""

    kind: type
    owner: Value


@dataclasses.dataclass(eq=False)
class Iter(Value):
    """An iterator over tracked values, pulled one at a time.

    Attributes:
        frame: A generator's own frame.
        sequence: What it goes over, if that is a list or tuple; `position` is the next one's, -1 at the end. Of
            another iterator from outside `position` is how many items were taken.
        changed: An iterator from outside was advanced.
        remake: Given the outcome, the text that makes it again where it stands; None if only the rest of its items do.
        is_fixed: The rest of its items is the same whenever it is asked for.
        is_broken: It raised: where it stands is not known.
    """

    items: Iterator[Value]
    frame: Any = None
    remake: Callable[[Any], str] | None = dataclasses.field(default=None, kw_only=True)
    is_fixed: bool = dataclasses.field(default=False, kw_only=True)
    is_broken: bool = dataclasses.field(default=False, kw_only=True)
    sequence: Seq | None = None
    position: int = 0
    changed: bool = False


_WORDS: dict[type[Value], str] = {
    BoundMethod: "method",
    ClassDefinition: "class of this call",
    DictView: "view",
    IntRange: "range",
    PartialCall: "partial",
    RandomNumber: "random number",
    UnreadText: "text",
    WeakReference: "weak reference",
}


def kind_word(value: Value) -> str:
    """What kind of value it is, for people."""
    return _WORDS.get(type(value), type(value).__name__.lower())
