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

_DEEPEST = 20  # objects that hold one another, of which it is known what the innermost holds


def may_have_tensor(values: Iterable[Value], looks_inside: bool = False) -> bool:
    """Whether one of the values may be, or may hold, a tensor: whatever is not known to hold none may.

    Args:
        values: What is alive.
        looks_inside: Whether an object from outside, a configuration say, holds none where none of its attributes does.
    """
    seen: set[int] = set()
    waiting: list[Value | None] = list(values)
    while waiting:
        value = waiting.pop()
        if value is None or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Lazy | Obj):
            if not _is_plain(value.value, looks_inside):
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


def _is_plain(value: Any, looks_inside: bool = False, around: tuple[Any, ...] = ()) -> bool:
    """Whether something from outside is a number, a text, a class or an array, or holds nothing else.

    Args:
        value: What may hold a tensor.
        looks_inside: Whether an object is what its attributes are.
        around: What holds it: what holds itself is as plain as the rest of it.
    """
    if (
        type(value) in CONSTANT_TYPES
        or is_numpy_scalar(value)
        or is_array(value)
        or is_constant_object(value)
        or any(value is one for one in around)
    ):
        return True
    if isinstance(value, torch.Tensor | torch.nn.Module) or len(around) > _DEEPEST:
        return False
    parts = _parts(value, looks_inside)
    return parts is not None and all(_is_plain(part, looks_inside, (*around, value)) for part in parts)


def _parts(value: Any, looks_inside: bool) -> list[Any] | None:
    """What something from outside holds; None where that is not known."""
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair]
    if isinstance(value, types.FunctionType):
        return _contents(value)
    if not looks_inside or hasattr(type(value), "__slots__"):
        return None
    try:
        return list(object.__getattribute__(value, "__dict__").values())
    except AttributeError:
        return None


def _contents(function: types.FunctionType) -> list[Any]:
    cells = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # it is empty
            cells.append(cell.cell_contents)
    return [*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
