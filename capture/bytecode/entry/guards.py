"""Guards: the facts a graph relies on, compiled to one Python expression that a later call must satisfy."""

from __future__ import annotations

import dataclasses
import types
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from longhand.capture import torch_private
from longhand.capture.bytecode.entry.held_paths import HeldGuards, hold
from longhand.capture.bytecode.entry.text import HeldText
from longhand.capture.bytecode.values.sources import Source

__all__ = ["Check", "Guard", "Guards", "same_constants"]


def same_constants(constant: Any, known: Any) -> bool:
    """Equal and of the same types, part for part: 1 is not True, 0.0 is not -0.0, and a NaN is only itself."""
    if constant is known:
        return True
    if type(constant) is not type(known):
        return False
    if isinstance(constant, tuple | frozenset):
        return len(constant) == len(known) and all(map(same_constants, constant, known))
    if isinstance(constant, float | complex):
        return bool(constant == known) and str(constant) == str(known)
    return bool(constant == known)


@dataclasses.dataclass(frozen=True)
class Guard:
    """One fact.

    Attributes:
        source: What it is about.
        condition: Python text with `{}` for the source, true while the fact holds.
        readable: The fact for people.
        is_joint: Whether the one check of all tensors of fixed sizes covers it, too.
        other: The source that the condition names besides, and compares with by identity.
    """

    source: Source
    condition: str
    readable: str
    is_joint: bool = False
    other: Source | None = None


class Guards:
    """The guards of one graph, in the order in which the facts were used.

    A guard may only read what earlier guards have made sure is there; what raises nevertheless counts as a miss.
    """

    def __init__(self) -> None:
        self.constants: dict[str, Any] = {}
        self._by_id: dict[int, str] = {}
        self._by_names: dict[tuple[str, ...], str] = {}
        self.guards: list[Guard] = []
        self._seen: set[tuple[str, str]] = set()
        self._fixed: dict[Source, torch.Tensor] = {}  # tensors of fixed sizes

    def constant(self, value: Any) -> str:
        """A name in the generated code that is bound to `value`."""
        if type(value) in (bool, type(None), int) or value is Ellipsis:
            return repr(value)
        if type(value) is str and "{" not in value and "}" not in value:
            return repr(value)
        if type(value) is tuple and all(type(part) is str for part in value):
            # One name for equal keys of a dict, so that what they are is asked once.
            if value not in self._by_names:
                self._by_names[value] = self._bound(value)
            return self._by_names[value]
        return self._bound(value)

    def _bound(self, value: Any) -> str:
        if id(value) not in self._by_id:
            name = f"C{len(self.constants)}"
            self._by_id[id(value)] = name
            self.constants[name] = value
        return self._by_id[id(value)]

    def add(
        self, source: Source, condition: str, readable: str | None = None, *, is_joint: bool = False
    ) -> None:
        """Adds a fact once."""
        key = (source.expression(), condition)
        if key not in self._seen:
            self._seen.add(key)
            text = readable or condition.format(source.name)
            self.guards.append(Guard(source, condition, text, is_joint))

    def identity(self, source: Source, other: Source, *, is_same: bool) -> None:
        """Two paths lead to one object, or to two."""
        word = "is" if is_same else "is not"
        text = other.expression().replace("{", "{{").replace("}", "}}")
        key = (source.expression(), f"{{}} {word} {text}")
        if key not in self._seen:
            self._seen.add(key)
            self.guards.append(Guard(source, key[1], f"{source.name} {word} {other.name}", other=other))

    def same_object(self, source: Source, value: Any) -> None:
        name = self.constant(value)
        is_named = isinstance(value, type | types.FunctionType | types.BuiltinFunctionType)
        word = (
            value.__qualname__ if is_named else type(value).__name__
        )  # nothing is asked of a user's own object
        self.add(source, "{} is " + name, f"{source.name} is {word}")

    def same_type(self, source: Source, kind: type) -> None:
        self.add(source, "type({}) is " + self.constant(kind), f"{source.name} is a {kind.__qualname__}")

    def equal(self, source: Source, value: Any) -> None:
        """The value is equal and of the same type."""
        if value is None or isinstance(value, bool):
            self.add(source, "{} is " + repr(value), f"{source.name} is {value!r}")
            return
        self.same_type(source, type(value))
        if isinstance(value, float) and value != value:
            self.add(source, "{0} != {0}", f"{source.name} is NaN")
        elif isinstance(value, complex) or (isinstance(value, float) and value == 0):  # zeros have signs
            self.add(source, "str({}) == " + repr(str(value)), f"{source.name} == {value!r}")
        elif isinstance(value, range):
            parts = f"({value.start}, {value.stop}, {value.step})"
            condition = "({0}.start, {0}.stop, {0}.step) == " + parts
            self.add(source, condition, f"{source.name} == {value!r}")
        else:
            self.add(source, "{} == " + self.constant(value), f"{source.name} == {value!r}")

    def tensor(self, source: Source, value: torch.Tensor, static: tuple[bool, ...]) -> None:
        """Everything a graph relies on about a tensor; of sizes and strides those that are static."""
        self.same_type(source, type(value))
        facts = {
            "{}.dtype is " + self.constant(value.dtype): str(value.dtype),
            "{}.requires_grad is " + repr(value.requires_grad): f"requires_grad={value.requires_grad}",
            torch_private.KEYS_TEXT
            + " == "
            + self.constant(torch_private.dispatch_keys(value)): "dispatch keys",
        }
        if value.device.type != "cpu":
            facts["{}.device == " + self.constant(value.device)] = str(value.device)
        if all(static):
            facts["{}.shape == " + self.constant(tuple(value.shape))] = f"sizes {tuple(value.shape)}"
            facts["{}.stride() == " + self.constant(value.stride())] = f"strides {value.stride()}"
        else:
            facts["{}.dim() == " + repr(value.dim())] = f"{value.dim()} dimensions"
            facts["{}.is_contiguous() is " + repr(value.is_contiguous())] = "contiguous"
        if all(static):
            self._fixed[source] = value
        for condition, readable in facts.items():
            self.add(source, condition, f"{source.name}: {readable}", is_joint=all(static))

    def check(self, loads: Sequence[Source] = (), given: Mapping[str, Any] | None = None) -> Check:
        """The guards as text over the entry's names.

        Each step of a path is evaluated once, and only what is read again gets a local: thousands of them make a frame
        too large for CPython's own stack of frames, which then asks the system for memory in each call.

        The tensors of fixed sizes come last, in one call: a step that leads through one of them (its `grad`, say) is
        only read here, and what it leads to is checked like all else.

        Args:
            loads: What the entry reads once the guards hold.
            given: Objects that paths begin at and that are the same from call to call: what lies on these paths is
                remembered.
        """
        alone = [guard for guard in self.guards if not guard.is_joint]
        fixed = [*self._fixed]
        read = (*fixed, *loads)
        facts = [(guard.source, guard.condition, guard.other) for guard in alone]
        held = hold(facts, read, self.constants, given or {})
        text, names = None, {}
        if held is not None:
            names = {source.expression(): f"h{number}" for number, source in enumerate(held.outputs)}
            remembered = [guard for place, guard in enumerate(alone) if place in held.guards]
            alone = [guard for place, guard in enumerate(alone) if place not in held.guards]
            text = _held_text(held, remembered, tuple(names.values()))
        paths = _Paths(alone, read, names)
        parts = [*map(paths.condition, alone)]
        if fixed:
            self.constants["same_tensors"] = torch_private.tensor_check(tuple(self._fixed.values()))
            parts.append(f"same_tensors({', '.join(map(paths.text, fixed))})")
            self._fixed.clear()  # they would live as long as the graph
        loaded = [paths.text(source) for source in loads]
        return Check(" and ".join(parts) or "True", loaded, text, held.functions() if held else {})


@dataclasses.dataclass(frozen=True)
class Check:
    """Guards as text.

    Attributes:
        condition: What is evaluated in each call.
        loads: The texts of what is read once it is true.
        held: The guards that are remembered between calls; None: none are.
        names: What their text names.
    """

    condition: str
    loads: list[str]
    held: HeldText | None
    names: dict[str, Any]


def _held_text(held: HeldGuards, guards: Sequence[Guard], names: tuple[str, ...]) -> HeldText:
    paths = _Paths(guards, held.outputs, held.roots)
    condition = " and ".join(map(paths.condition, guards))
    values = "".join(f"{paths.text(source)}, " for source in held.outputs)
    roots = ", ".join(held.roots)
    return HeldText(roots, ", ".join(held.roots.values()), names, f"({values}) if {condition} else None")


class _Paths:
    """The texts of paths in one expression, where the first that reads a step keeps it for all others.

    Args:
        guards: What is evaluated, in order.
        read: What is read besides.
        known: The names of what is there already, by path.
    """

    def __init__(
        self, guards: Sequence[Guard], read: Sequence[Source], known: Mapping[str, str] | None = None
    ) -> None:
        self._reads = _reads(guards) + Counter(source.expression() for source in read)
        self._known = dict(known or {})
        self._counted = set(self._known)
        for guard in guards:
            self._count(guard.source)
            if guard.other is not None:
                self._count(guard.other)
        for source in read:
            self._count(source)

    def _count(self, source: Source) -> None:
        """Counts what the first evaluation of a path reads: the path to its last step."""
        while source.base is not None and source.expression() not in self._counted:
            self._counted.add(source.expression())
            # A step may name its base twice, or not at all.
            self._reads[source.base.expression()] += source.step.count("{}")
            source = source.base

    def condition(self, guard: Guard) -> str:
        """A guard's condition."""
        if guard.other is not None:
            word = "is not" if guard.condition.startswith("{} is not ") else "is"
            return f"{self.text(guard.source)} {word} {self.text(guard.other)}"
        pieces = _pieces(guard.condition)
        return "".join(self.text(guard.source) if piece is None else piece for piece in pieces)

    def text(self, source: Source) -> str:
        """The path, or the local that holds what it leads to."""
        expression = source.expression()
        if source.base is None:
            return expression
        if expression in self._known:
            return self._known[expression]
        step = source.step.format(self.text(source.base))
        if self._reads[expression] < 2:
            return f"({step})"
        self._known[expression] = name = f"v{len(self._known)}"
        return f"({name} := {step})"


def _reads(guards: Sequence[Guard]) -> Counter[str]:
    """How often guards read the paths that they are about."""
    reads: Counter[str] = Counter()
    for guard in guards:
        reads[guard.source.expression()] += _pieces(guard.condition).count(None)
        if guard.other is not None:
            reads[guard.other.expression()] += 1
    return reads


def _pieces(condition: str) -> list[str | None]:
    """The text of a condition, with None where the source goes."""
    pieces: list[str | None] = []
    for position, part in enumerate(condition.replace("{0}", "{}").split("{}")):
        if position:
            pieces.append(None)
        pieces.append(part.replace("{{", "{").replace("}}", "}"))
    return pieces
