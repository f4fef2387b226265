"""One capture in progress: the graph, where the code is, and what was written to objects from outside."""

from __future__ import annotations

import contextlib
import contextvars
import operator
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import fx

from longhand.capture import torch_private
from longhand.capture.autocast_state import autocast_settings
from longhand.capture.bytecode.calls.leaves import is_torch_leaf
from longhand.capture.bytecode.entry.breaks import SkipFrame, Unsupported
from longhand.capture.bytecode.entry.call_effects import mutates
from longhand.capture.bytecode.entry.kept_by_hooks import KeptByHooks
from longhand.capture.bytecode.entry.shapes import DynamicSizes
from longhand.capture.bytecode.values.classes import ClassFacts
from longhand.capture.bytecode.values.data_views import DataViews
from longhand.capture.bytecode.values.given_objects import CONSTANT_TYPES
from longhand.capture.bytecode.values.sources import Source, is_default
from longhand.capture.bytecode.values.tracked import (
    Const,
    Dict,
    Func,
    New,
    Obj,
    RandomNumber,
    Seq,
    SetOf,
    Sym,
    Tensor,
    Value,
    WeakReference,
)
from longhand.capture.bytecode.values.wrapping import Wrapping

__all__ = ["DELETED", "Trace"]

DELETED = Const("deleted")

# What torch takes for a dtype; the code that fx writes of a graph has no words for a class.
_DTYPES: dict[object, torch.dtype] = {
    bool: torch.bool,
    int: torch.int64,
    float: torch.float64,
    complex: torch.complex128,
}


_FIXED = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    torch.dtype,
    torch.layout,
    torch.memory_format,
)


def _dtype_of(argument: Any) -> Any:
    return _DTYPES.get(argument, argument) if isinstance(argument, type) else argument


class Trace(Wrapping):
    """What one run of the symbolic interpreter collects.

    Args:
        sizes: Which sizes are symbolic.
    """

    def __init__(self, sizes: DynamicSizes) -> None:
        super().__init__(sizes)
        self.classes = ClassFacts()
        self.codes: dict[types.FunctionType, types.CodeType] = {}
        self.autocast = autocast_settings()
        self.attributes: dict[Value, dict[str, Value]] = {}
        self.array_tensors: dict[Obj, Value] = {}  # what torch.from_numpy gave
        self.references: dict[New, WeakReference] = {}
        self.globals_written: dict[int, tuple[dict[str, Any], dict[str, Value]]] = {}
        self.draws: list[RandomNumber] = []  # of Python's generator
        self.generators: list[Any] = []
        self.stack: list[Any] = []
        self.modules: list[tuple[str, str, type]] = []
        self.call_value: Callable[[Value, list[Value], dict[str, Value]], Value]
        self.get_attribute: Callable[[Value, str], Value]
        self.get_special: Callable[[Value, str], Value]
        self.keep_attribute: Callable[[Value, str, Value], None]
        self.all_items: Callable[[Value], list[Value]]
        self.iterate: Callable[[Value], Value]
        self.advance: Callable[[Value], Value | None]
        self.bind: Callable[[Func, list[Value], dict[str, Value]], dict[str, Value]]
        self.run_frame: Callable[[Any], Value]
        self.n_steps = 0
        self.n_index_modes = 0  # how many TransformGetItemToIndex are on
        self.may_raise = (
            ""  # a call that may raise where the user's code handles it, or a check that may fail
        )
        self.may_delay = True  # texts of tensors and classes are made where something reads them
        self.has_delayed = False
        self.assumes = False  # whether what a check of values finds is looked at after the graph
        self.assumed: list[tuple[Tensor, bool]] = []
        self.inner: dict[fx.Node, str] = {}  # what must not leave the graph, and why
        self.data_views = DataViews()
        self.hooks = KeptByHooks(frozenset())
        self._watched: list[tuple[torch.Tensor, int, str]] = []
        self._deferred: tuple[str, str] | None = None
        self.asks_for_gradients = False  # code that eager runs later asks whether they are recorded
        self.tells_compiled = True  # the answer to torch.compiler.is_compiling()
        self.has_told_compiled = False
        self.context: dict[contextvars.ContextVar[Any], Value] = {}  # what is set, and not yet reset
        self.keeps_context = False  # whether all that reads it is captured

    def call(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
        """A node with the user's place."""
        given: Any = fx.node.map_aggregate((args, kwargs), _dtype_of)
        args, kwargs = given
        node = self.graph.create_node(op, target, args, kwargs)
        node.meta["stack_trace"] = self.place_text()
        if self.modules:
            node.meta["nn_module_stack"] = {key: (path, kind) for key, path, kind in self.modules}
        return node

    def result(self, node: fx.Node, fake: Any) -> Value:
        """What a node gives, as a tracked value. In-place ops give the very tensor that they wrote."""
        if isinstance(fake, torch.Tensor):
            if id(fake) in self.tensors:
                node.meta["example_value"] = fake
                return self.tensors[id(fake)]
            node.meta["example_value"] = fake
            kind = torch.nn.Parameter if isinstance(fake, torch.nn.Parameter) else torch.Tensor
            made = Tensor(node, fake, kind)
            self.tensors[id(fake)] = made
            self.alive.append(fake)
            return made
        if isinstance(fake, torch.SymInt | torch.SymFloat | torch.SymBool):
            node.meta["example_value"] = fake
            return Sym(node, fake)
        if isinstance(fake, tuple | list):
            items = []
            for position, part in enumerate(fake):
                if isinstance(part, torch.Tensor | torch.SymInt | tuple | list):
                    inner = self.call("call_function", operator.getitem, (node, position), {})
                    items.append(self.result(inner, part))
                    if not inner.users and not isinstance(items[-1], Tensor | Sym):
                        self.graph.erase_node(inner) if not inner.users else None
                else:
                    items.append(Const(part))
            return Seq(type(fake), items)
        if fake is None or isinstance(fake, CONSTANT_TYPES):
            return Const(fake)
        raise Unsupported(f"a torch function returns a {type(fake).__qualname__}")

    # Places

    def place_text(self) -> str:
        """The interpreted frames as a printed stack, outermost first."""
        lines = []
        for frame in self.stack:
            file, line, name = frame.place()
            lines.append(f'  File "{file}", line {line}, in {name}')
        return "\n".join(lines) + "\n"

    def where(self) -> str:
        """``file:line`` of the innermost interpreted frame."""
        if not self.stack:
            return ""
        file, line, _ = self.stack[-1].place()
        return f"{file}:{line}"

    def is_changed(self, value: Value) -> bool:
        """Whether the code has written to it or to its attributes."""
        follows = isinstance(value, Dict) and value.follows
        return follows or super().is_changed(value) or value in self.attributes

    def changing(self, value: Value) -> None:
        """Notes that a container or cell from outside is written to."""
        if value.source is None:
            return
        if isinstance(value, Dict):
            if value.follows:
                raise Unsupported("attributes are set by name and in __dict__")  # which of the two was last?
            self.guard_keys(value)
        if not value.changed:  # type: ignore[attr-defined]
            value.changed = True  # type: ignore[attr-defined]
            self.changed.append(value)

    def written(self) -> list[Tensor]:
        """The inputs that the graph writes into. Inference tensors do not count their writes: any write may be one."""
        writes = any(mutates(node) for node in self.graph.nodes if node.op.startswith("call"))
        return [
            tensor
            for tensor in self.inputs
            if (writes if tensor.fake.is_inference() else torch_private.version(tensor.fake) > 0)
        ]

    @contextlib.contextmanager
    def deferred(self, who: str, hint: str) -> Iterator[None]:
        """While inside, code is interpreted that eager runs later: what it reads from outside may be another by then.

        Args:
            who: What says that it reads something, where that is refused.
            hint: What to do instead.
        """
        self._deferred, assumes, self.assumes = (who, hint), self.assumes, False
        self.asks_for_gradients = False
        try:
            yield
        finally:
            self._deferred, self.assumes = None, assumes

    def wrap(self, value: Any, source: Source) -> Value:
        """The tracked value of a real one, with its guards.

        Raises:
            Unsupported: It is read by code that runs later, and may be another by then.
        """
        if not (is_default(source) and type(value) in CONSTANT_TYPES):  # as fixed as its function's code
            self.refuse_deferred(value, source.name)
        return super().wrap(value, source)

    def wrap_fixed(self, value: Any, source: Source) -> Value:
        """The tracked value of what is the same whenever it is read."""
        return super().wrap(value, source)

    @property
    def is_deferred(self) -> bool:
        """Whether eager runs later what is interpreted now."""
        return self._deferred is not None

    def refuse_deferred(self, value: Any, name: str) -> None:
        """Raises where code that runs later reads anything but a function, class, module or dtype."""
        if self._deferred is not None and not (isinstance(value, _FIXED) or is_torch_leaf(value)):
            who, hint = self._deferred
            raise Unsupported(f"{who} {name}, which may be another by then", hint)

    def watch(self, fake: torch.Tensor, reason: str) -> None:
        """From here on a write into this tensor, or into what it is a view of, leaves the frame to CPython."""
        self._watched.append((fake, torch_private.version(fake), reason))

    def refuse_writes(self) -> None:
        """Looks whether the last call wrote into a tensor that is watched.

        Raises:
            SkipFrame: It did.
        """
        for fake, version, reason in self._watched:
            if torch_private.version(fake) != version:
                raise SkipFrame(reason)

    def has_effects(self) -> bool:
        """Whether anything that was there before is to be changed."""
        return bool(self.changed or self.attributes or self.globals_written or self.draws)

    def written_values(self) -> Iterator[Value]:
        """What was written to of what was there before, and what was written."""
        yield from self.changed
        for written in (*self.attributes.values(), *(names for _, names in self.globals_written.values())):
            yield from written.values()

    def n_effects(self) -> int:
        """Grows with everything that is to be changed."""
        parts = [*self.attributes.values(), *(written for _, written in self.globals_written.values())]
        logged = sum(len(value.log) for value in self.changed if isinstance(value, SetOf))
        sizes = sum(len(value.items) for value in self.changed if isinstance(value, Seq | Dict))
        return len(self.changed) + sum(map(len, parts)) + logged + sizes + len(self.draws)

    def guard_separate(self) -> None:
        """What was written to must not be, in a later call, another object that was read."""
        for value in (*self.changed, *self.attributes):
            for other in list(self.by_id.values()):
                if other is value or type(other) is not type(value) or None in (value.source, other.source):
                    continue
                if (
                    isinstance(value, Obj)
                    and isinstance(other, Obj)
                    and type(value.value) is not type(other.value)
                ):
                    continue
                assert value.source is not None and other.source is not None
                self.guards.identity(value.source, other.source, is_same=False)

    def constants(self, values: Iterable[Any]) -> list[Value]:
        return [Const(value) for value in values]
