"""Whether what a frame holds at a break may lead to a tensor: what does not is CPython's to its end."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterable
from typing import Any

import torch

from longhand.capture.bytecode.calls.leaves import is_constant_object, is_numpy_scalar
from longhand.capture.bytecode.values.arrays import is_array
from longhand.capture.bytecode.values.given_objects import CONSTANT_TYPES
from longhand.capture.bytecode.values.tracked import (
    Array,
    BoundMethod,
    Cell,
    Const,
    Dict,
    Func,
    IntRange,
    Iter,
    Lazy,
    Null,
    Obj,
    Seq,
    SetOf,
    Slice,
    Value,
)

__all__ = ["may_have_tensor"]


def may_have_tensor(values: Iterable[Value], looks_inside: bool = False) -> bool:
    """Whether one of the values may be, or may hold, a tensor: whatever is not known to hold none may.

    Args:
        values: What is alive.
        looks_inside: Whether an object from outside, a configuration say, holds none where none of its attributes does.
    """
    is_without = _is_without if looks_inside else _is_plain
    seen: set[int] = set()
    waiting: list[Value | None] = list(values)
    while waiting:
        value = waiting.pop()
        if value is None or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Lazy | Obj):
            if not is_without(value.value):
                return True
        elif isinstance(value, Seq):
            waiting += value.items
        elif isinstance(value, Dict):
            waiting += value.items.values()
        elif isinstance(value, Slice):
            waiting += value.parts
        elif isinstance(value, Cell):
            waiting.append(value.content)
        elif isinstance(value, Func):
            waiting += [*value.defaults, *value.keyword_defaults.values(), *value.closure]
        elif isinstance(value, BoundMethod):
            waiting += [value.function, value.owner]
        elif isinstance(value, Iter) and value.sequence is not None:
            waiting.append(value.sequence)
        elif isinstance(value, Iter) and value.is_fixed:
            rest = list(value.items)
            value.items = iter(rest)
            waiting += rest
        elif not isinstance(value, Const | Array | IntRange | SetOf | Null):
            return True
    return False


def _is_plain(value: Any) -> bool:
    """Whether something from outside is a number, a text, a class or an array, or holds nothing else."""
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(_is_plain(part) for pair in value.items() for part in pair)
    if (
        type(value) in CONSTANT_TYPES
        or is_numpy_scalar(value)
        or is_array(value)
        or is_constant_object(value)
    ):
        return True
    return isinstance(value, types.FunctionType) and all(_is_plain(cell) for cell in _contents(value))


def _is_without(value: Any, around: tuple[Any, ...] = ()) -> bool:
    """Whether something from outside is plain, or an object all of whose attributes are so."""
    if _is_plain(value) or any(value is one for one in around):
        return True
    around = (*around, value)
    if isinstance(value, list | tuple | set | frozenset):
        return all(_is_without(part, around) for part in value)
    if isinstance(value, dict):
        return all(_is_without(part, around) for pair in value.items() for part in pair)
    if isinstance(value, torch.Tensor | torch.nn.Module) or hasattr(type(value), "__slots__"):
        return False
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return False
    return all(_is_without(part, around) for part in attributes.values())


def _contents(function: types.FunctionType) -> list[Any]:
    cells = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # it is empty
            cells.append(cell.cell_contents)
    return [*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
