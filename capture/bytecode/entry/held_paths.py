"""Which guards depend on nothing but paths that `HeldPaths` (capture/_held_paths.h) remembers, and how it walks them.

A guard is held where the steps of its path and what it asks of the value are among the few that C knows: an attribute,
an item, a cell; which object it is, of which class, which number or string, what is in a dict. All other guards are
evaluated in each call, and take what they read from the paths that are held. What C can remember of the objects that
are there at capture it is asked once; where it finds another value than Python does, it is not asked again.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from longhand.capture.bytecode.hook import frame_hook
from longhand.capture.bytecode.values.sources import Source

__all__ = ["HeldGuards", "hold", "same_objects"]


class _StepKind(enum.IntEnum):
    """A step, or a fact about the value that its holder is; the order of StepKind in C."""

    CONSTANT = 0
    DICT = 1
    ATTRIBUTE = 2
    INDEX = 3
    CELL = 4
    FIELD = 5
    TYPE = 6
    SCALAR = 7
    KEY = 8
    CONTENT = 9
    ORDER = 10
    LACKS = 11


@dataclasses.dataclass(frozen=True)
class HeldGuards:
    """What is remembered of a call's guards.

    Attributes:
        roots: What each object that paths begin at is called in `walk`, by its path, in order.
        guards: The positions of the guards that hold while recall() finds something.
        outputs: The sources whose values it gives, in order.
        paths: The HeldPaths.
    """

    roots: dict[str, str]
    guards: frozenset[int]
    outputs: tuple[Source, ...]
    paths: Any

    def functions(self) -> dict[str, Any]:
        """What an entry calls, by the names that it uses."""
        return {"recall": self.paths.recall, "learn": self.paths.learn, "keep": self.paths.keep}


_Step = tuple[_StepKind, int, Any]
_FIELDS = ("__code__", "__globals__", "__closure__", "__defaults__", "__kwdefaults__")
_ROOT_PATHS = re.compile(r"f\.(__globals__|__closure__)(?:\[(\d+)\])?")
# Conditions, and the fact that decides each besides which object the value is. `X` is one name or plain literal.
_VALUE = r"(?:C\d+|True|False|None|-?\d+|'[^']*')"
_FACTS = (
    (re.compile(rf"type\({{}}\) is {_VALUE}"), _StepKind.TYPE),
    (re.compile(rf"{{}} is (?:not )?{_VALUE}"), None),
    (re.compile(rf"{{}} == {_VALUE}"), _StepKind.SCALAR),
    (re.compile(r"\{0\} != \{0\}"), _StepKind.SCALAR),
    (re.compile(rf"str\({{}}\) == {_VALUE}"), _StepKind.SCALAR),
    (re.compile(r"(?:list\.__len__|len)\(\{\}\) == \d+"), _StepKind.CONTENT),
    (re.compile(rf"tuple\({{}}\) == {_VALUE}"), _StepKind.ORDER),
    (re.compile(rf"C\d+\(tuple\({{}}\), {_VALUE}\)"), _StepKind.ORDER),
)
_HAS = re.compile(
    r"('[^'{}\\]*') (?:not )?in \{\}|dict\.__contains__\(\{\}, ('[^'{}\\]*')\) is (?:True|False)"
)
_IS_EMPTY = re.compile(r"not \{\}\[('[^'{}\\]*')\]")
_LACKS = re.compile(r"not hasattr\(\{\}, ('[^'{}\\]*')\)")


class _NotHeld(Exception):
    """C does not know such a step."""


class _Program:
    """The steps of many paths, each once.

    Args:
        roots: The paths of the objects that others begin at, in order.
        constants: What other names stand for.
    """

    def __init__(self, roots: Sequence[str], constants: Mapping[str, Any]) -> None:
        self.steps: list[_Step] = []
        self.roots = {name: number for number, name in enumerate(roots)}
        self._constants = constants
        self._numbers: dict[str, int | None] = {}
        self._known: dict[_Step | tuple[str, int], int] = {}

    def number(self, source: Source) -> int:
        """The number of a path's last step.

        Raises:
            _NotHeld: A step is none of those that C knows.
        """
        expression = source.expression()
        if expression in self.roots:
            return self.roots[expression]
        if expression not in self._numbers:
            try:
                self._numbers[expression] = self._add_path(source)
            except _NotHeld:
                self._numbers[expression] = None
        number = self._numbers[expression]
        if number is None:
            raise _NotHeld
        return number

    def add(self, kind: _StepKind, holder: int, key: Any = None) -> int:
        """The number of a step or fact."""
        known: Any = (kind, holder, id(key) if kind is _StepKind.CONSTANT else (type(key), key))
        if known not in self._known:
            self._known[known] = len(self.roots) + len(self.steps)
            self.steps.append((kind, holder, key))
        return self._known[known]

    def _add_path(self, source: Source) -> int:
        if source.base is None:
            return self._root(source.step)
        holder, step = self.number(source.base), source.step
        if step == "{}.__dict__":
            return self.add(_StepKind.DICT, holder)
        if step == "{}.cell_contents":
            return self.add(_StepKind.CELL, holder)
        if match := re.fullmatch(r"\{\}\.([^\W\d]\w*)", step):
            kind = _StepKind.FIELD if match[1] in _FIELDS else _StepKind.ATTRIBUTE
            return self.add(kind, holder, match[1])
        if match := re.fullmatch(r"\{\}\[(.*)\]|C\d+\.__getitem__\(\{\}, (.*)\)", step):
            return self.add(_StepKind.INDEX, holder, _literal(match[1] or match[2]))
        raise _NotHeld

    def _root(self, text: str) -> int:
        if text in self._constants:
            return self.add(_StepKind.CONSTANT, 0, self._constants[text])
        if (match := _ROOT_PATHS.fullmatch(text)) and "f" in self.roots:
            field = self.add(_StepKind.FIELD, self.roots["f"], match[1])
            return field if match[2] is None else self.add(_StepKind.INDEX, field, int(match[2]))
        raise _NotHeld

    def add_guard(self, source: Source, condition: str, other: Source | None) -> tuple[int, ...]:
        """The numbers of what a guard's truth depends on.

        Raises:
            _NotHeld: It depends on more than C can remember.
        """
        holder = self.number(source)
        if other is not None:
            return holder, self.number(other)
        if match := _IS_EMPTY.fullmatch(condition):
            return (self.add(_StepKind.CONTENT, self.add(_StepKind.INDEX, holder, _literal(match[1]))),)
        if match := _HAS.fullmatch(condition):
            return (self.add(_StepKind.KEY, holder, _literal(match[1] or match[2])),)
        if match := _LACKS.fullmatch(condition):
            return (self.add(_StepKind.LACKS, holder, _literal(match[1])),)
        for pattern, kind in _FACTS:
            if pattern.fullmatch(condition):
                return (holder if kind is None else self.add(kind, holder),)
        raise _NotHeld


def _literal(text: str) -> Any:
    """A key that prints as itself: a string or a whole number."""
    try:
        key = ast.literal_eval(text.replace("{{", "{").replace("}}", "}"))
    except (ValueError, SyntaxError):
        raise _NotHeld from None
    if type(key) not in (str, int):
        raise _NotHeld
    return key


def same_objects(function: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What paths begin at that is the same object from call to call, by its own path: the function, and modules.

    Args:
        function: The function that is called.
        arguments: Its flattened arguments by their names in the entry.
    """
    given: dict[str, Any] = {}
    for name, value in arguments.items():
        if type(value) is tuple:  # *args
            given |= {f"{name}[{place}]": part for place, part in enumerate(value)}
        else:
            given[name] = value
    return {"f": function, **{path: one for path, one in given.items() if isinstance(one, torch.nn.Module)}}


def hold(
    guards: Sequence[tuple[Source, str, Source | None]],
    read: Iterable[Source],
    constants: Mapping[str, Any],
    given: Mapping[str, Any],
) -> HeldGuards | None:
    """What of a call's guards can be remembered; None where nothing can.

    Args:
        guards: Of each its source, its condition, and the source that it compares with by identity.
        read: Other sources that each call reads.
        constants: What the names in conditions and paths stand for.
        given: The objects that paths may begin at, by their own paths, as they are now.
    """
    hook = frame_hook()
    if not hook.REMEMBERS or not given:
        return None
    trial = _Program([*given], constants)
    numbers = [_numbers(trial, *guard) for guard in guards]
    right = _remembered(trial, given)
    held = frozenset(place for place, needed in enumerate(numbers) if needed and right.issuperset(needed))
    if not held:
        return None
    asked = [
        source
        for place, (first, _, other) in enumerate(guards)
        if place not in held
        for source in (first, other)
        if source is not None
    ]
    outputs = _outputs([*asked, *read], trial, right)
    program = _Program([*given], constants)
    for place in sorted(held):
        program.add_guard(*guards[place])
    wanted = tuple(program.number(source) for source in outputs)
    roots = {path: path if path.isidentifier() else f"root{number}" for number, path in enumerate(given)}
    return HeldGuards(roots, held, outputs, hook.HeldPaths(len(given), tuple(program.steps), wanted))


def _numbers(
    program: _Program, source: Source, condition: str, other: Source | None
) -> tuple[int, ...] | None:
    try:
        return program.add_guard(source, condition, other)
    except _NotHeld:
        return None


def _remembered(program: _Program, given: Mapping[str, Any]) -> frozenset[int]:
    """The numbers of roots and steps that C walks as Python does, with all that they are reached through."""
    walked = frame_hook().HeldPaths(len(given), tuple(program.steps), ()).walk(*given.values())
    values = [*given.values(), *walked]
    right = set(range(len(given)))
    for place, (kind, holder, key) in enumerate(program.steps):
        number = len(given) + place
        is_reached = kind is _StepKind.CONSTANT or holder in right
        if (
            is_reached
            and values[number] is not NotImplemented
            and values[number] is _step(kind, values[holder], key)
        ):
            right.add(number)
    return frozenset(right)


def _step(kind: _StepKind, holder: Any, key: Any) -> Any:
    """A step as Python takes it."""
    try:
        match kind:
            case _StepKind.CONSTANT:
                return key
            case _StepKind.DICT:
                return holder.__dict__
            case _StepKind.ATTRIBUTE | _StepKind.FIELD:
                return getattr(holder, key)
            case _StepKind.INDEX:
                return holder[key]
            case _StepKind.CELL:
                return holder.cell_contents
    except Exception:  # whatever a class of the user's does: then the guard is Python's
        return NotImplemented
    return holder


def _outputs(sources: Iterable[Source], program: _Program, right: frozenset[int]) -> tuple[Source, ...]:
    """Of each path the longest part that is remembered, each once; but for what a name gives at once."""
    longest: dict[str, Source] = {}
    for source in sources:
        place: Source | None = source
        while place is not None and place.base is not None:
            if _is_held(place, program, right):
                longest.setdefault(place.expression(), place)
                break
            place = place.base
    return tuple(longest.values())


def _is_held(source: Source, program: _Program, right: frozenset[int]) -> bool:
    try:
        return program.number(source) in right
    except _NotHeld:
        return False
