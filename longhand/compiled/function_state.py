"""What a Python function reads besides its arguments: globals, closures, defaults, and what it calls of the user's.

Found once, from the names in its code; each is a fact that can be looked at again in well under a microsecond.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from longhand.capture import torch_private

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
_LIBRARIES = frozenset(sys.stdlib_module_names) | {"torch", "triton", "numpy", "sympy", "longhand"}
_MISSING = object()


@dataclasses.dataclass
class Facts:
    """Values as they were found.

    Attributes:
        values: (the namespace that holds it, its name, the value).
        contents: (a list, dict or set; what was in it).
        cells: (a variable of a closure, its value).
        code: (a function, its code, its defaults).
        tensors: (a tensor that is no parameter or buffer, how often it was written to).
        modules: Modules that a function finds in globals or closures.
    """

    values: list[tuple[Mapping[str, Any], str, object]] = dataclasses.field(default_factory=list)
    contents: list[tuple[Any, tuple[object, ...]]] = dataclasses.field(default_factory=list)
    cells: list[tuple[types.CellType, object]] = dataclasses.field(default_factory=list)
    code: list[tuple[types.FunctionType, types.CodeType, object, object]] = dataclasses.field(
        default_factory=list
    )
    tensors: list[tuple[torch.Tensor, int]] = dataclasses.field(default_factory=list)
    modules: list[torch.nn.Module] = dataclasses.field(default_factory=list)
    _seen: set[int] = dataclasses.field(default_factory=set)

    def hold(self) -> bool:
        """Whether all is as it was."""
        # Each call looks: plain loops, and no call of a function where the object is the same.
        for held, name, value in self.values:
            now = held.get(name, _MISSING)
            if now is not value and not is_same(now, value):
                return False
        for container, known in self.contents:
            if (container or known) and not _is_content(container, known):
                return False
        for cell, value in self.cells:
            if not is_same(_content_of(cell), value):
                return False
        for function, code, defaults, keywords in self.code:
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not keywords
            ):
                return False
        return all(torch_private.version(tensor) == written for tensor, written in self.tensors)

    def add(self, held: Mapping[str, Any], name: str) -> None:
        """A name of a namespace, and what is in its value."""
        value = held[name]
        self.values.append((held, name, value))
        self._look_into(value)

    def add_function(self, function: Any, classes: tuple[type, ...] = ()) -> None:
        """What a function reads; `classes` are its ``self``'s, in the order of lookup."""
        function = getattr(function, "__func__", function)
        if isinstance(function, property):
            function = function.fget
        if (
            not isinstance(function, types.FunctionType)
            or id(function) in self._seen
            or _is_library(function)
        ):
            return
        self._seen.add(id(function))
        self.code.append((function, function.__code__, function.__defaults__, function.__kwdefaults__))
        names = set(_names_in(function.__code__))
        for cell in function.__closure__ or ():
            value = _content_of(cell)
            self.cells.append((cell, value))
            self._look_into(value, names)
        for name in sorted(names & function.__globals__.keys()):
            value = function.__globals__[name]
            self.values.append((function.__globals__, name, value))
            self._look_into(value, names)
        for owner in classes:
            if not is_library(owner.__module__):
                for name in sorted(names & vars(owner).keys()):
                    value = vars(owner)[name]
                    self.values.append((vars(owner), name, value))
                    self.add_function(value, classes)  # first, since it is looked into once
                    self._look_into(value)

    def add_tensor(self, tensor: torch.Tensor) -> None:
        """A tensor that must not be written to."""
        if not tensor.is_inference():
            self.tensors.append((tensor, torch_private.version(tensor)))

    def _look_into(self, value: object, names: set[str] | None = None) -> None:
        """What may change inside a value while it stays the same object."""
        if isinstance(value, list | dict | set):
            self.contents.append((value, _contents_of(value)))
        elif isinstance(value, torch.Tensor):
            self.add_tensor(value)
        elif isinstance(value, torch.nn.Module):
            self.modules.append(value)
        elif isinstance(value, types.FunctionType | types.MethodType):
            self.add_function(value)
        elif names and _is_users(value):
            for name in sorted(names & getattr(value, "__dict__", {}).keys()):
                held = vars(value)
                self.values.append((held, name, held[name]))
                self._look_into(held[name])


def is_same(now: object, value: object) -> bool:
    """Whether a value is the same object, or an equal number, text or the like."""
    return now is value or (type(now) is type(value) and type(now) in _PLAIN and now == value)


def is_library(module: str | None) -> bool:
    """Whether a module's code is none of the user's."""
    return (module or "").partition(".")[0] in _LIBRARIES


def _is_library(function: types.FunctionType) -> bool:
    return is_library(function.__module__)


def _is_users(value: object) -> bool:
    """Whether a value is a module, a class or an object of the user's."""
    if isinstance(value, types.ModuleType):
        return not is_library(value.__name__)
    owner = value if isinstance(value, type) else type(value)
    return not is_library(owner.__module__)


def _names_in(code: types.CodeType) -> Iterator[str]:
    """Global names and attributes in a function's code and in the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _content_of(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING


def _contents_of(container: Any) -> tuple[object, ...]:
    if isinstance(container, dict):
        return tuple(value for item in container.items() for value in item)
    return tuple(container)


def _is_content(container: Any, known: tuple[object, ...]) -> bool:
    now = _contents_of(container)
    return len(now) == len(known) and all(map(is_same, now, known))
