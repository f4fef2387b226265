"""Guards: the facts a graph relies on, compiled to one Python expression that a later call must satisfy."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from longhand.capture import torch_private
from longhand.capture.bytecode.values.sources import Source

__all__ = ["Guard", "Guards", "same_constants"]


def same_constants(found: Any, known: Any) -> bool:
    """Equal and of the same types, part for part: 1 is not True, 0.0 is not -0.0, and a NaN is only itself."""
    if found is known:
        return True
    if type(found) is not type(known):
        return False
    if isinstance(found, tuple | frozenset):
        return len(found) == len(known) and all(map(same_constants, found, known))
    if isinstance(found, float | complex):
        return bool(found == known) and str(found) == str(known)
    return bool(found == known)


@dataclasses.dataclass(frozen=True)
class Guard:
    """One fact.

    Attributes:
        source: What it is about.
        condition: Python text with `{}` for the source, true while the fact holds.
        readable: The fact for people.
        is_joint: Whether the one check of all tensors of fixed sizes covers it, too.
    """

    source: Source
    condition: str
    readable: str
    is_joint: bool = False


class Guards:
    """The guards of one graph, in the order in which the facts were used.

    A guard may only read what earlier guards have made sure is there; what raises nevertheless counts as a miss.
    """

    def __init__(self) -> None:
        self.constants: dict[str, Any] = {}
        self._by_id: dict[int, str] = {}
        self.guards: list[Guard] = []
        self._seen: set[tuple[str, str]] = set()
        self._fixed: dict[Source, torch.Tensor] = {}  # tensors of fixed sizes

    def constant(self, value: Any) -> str:
        """A name in the generated code that is bound to `value`."""
        if type(value) in (bool, type(None), int) or value is Ellipsis:
            return repr(value)
        if type(value) is str and "{" not in value and "}" not in value:
            return repr(value)
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

    def same_object(self, source: Source, value: Any) -> None:
        name = self.constant(value)
        word = getattr(value, "__qualname__", None) or type(value).__name__
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

    def check(self) -> str:
        """One expression over the entry's names; each step of a path is evaluated once.

        The tensors of fixed sizes come last, in one call: a step that leads through one of them (its `grad`, say) is
        only read here, and what it leads to is checked like all else.
        """
        known: dict[str, str] = {}

        def walk(source: Source) -> str:
            expression = source.expression()
            if source.base is None:
                return expression
            if expression in known:
                return known[expression]
            base = walk(source.base)
            known[expression] = f"v{len(known)}"
            return f"({known[expression]} := {source.step.format(base)})"

        parts = []
        for guard in self.guards:
            if guard.is_joint:
                continue
            first = walk(guard.source)
            later = known.get(guard.source.expression(), guard.source.expression())
            text, done = "", False
            for piece in _pieces(guard.condition):
                text += (later if done else first) if piece is None else piece
                done = done or piece is None
            parts.append(text if done else f"{text}")
        if self._fixed:
            self.constants["same_tensors"] = torch_private.tensor_check(tuple(self._fixed.values()))
            tensors = [known.get(source.expression()) or walk(source) for source in self._fixed]
            parts.append(f"same_tensors({', '.join(tensors)})")
            self._fixed.clear()  # they would live as long as the graph
        return " and ".join(parts) or "True"


def _pieces(condition: str) -> list[str | None]:
    """The text of a condition, with None where the source goes."""
    pieces: list[str | None] = []
    for position, part in enumerate(condition.replace("{0}", "{}").split("{}")):
        if position:
            pieces.append(None)
        pieces.append(part.replace("{{", "{").replace("}}", "}"))
    return pieces
