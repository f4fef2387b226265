"""The Python type of a tracked value."""

from __future__ import annotations

import abc
import functools
import types
import weakref
from typing import Any

import torch

from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.values.tracked import (
    Array,
    Bound,
    BoundMethod,
    Const,
    Dict,
    Error,
    Func,
    IntRange,
    Iter,
    New,
    Obj,
    PartialCall,
    Seq,
    SetOf,
    Slice,
    Sym,
    Tensor,
    UnreadText,
    Value,
    WeakReference,
    kind_word,
)

__all__ = ["type_of"]

_FIXED: dict[type, type] = {
    Func: types.FunctionType,
    BoundMethod: types.MethodType,
    Bound: types.BuiltinMethodType,
    IntRange: range,
    Slice: slice,
    PartialCall: functools.partial,
    UnreadText: str,
    WeakReference: weakref.ref,
}


def type_of(value: Value) -> type:
    """``type(value)``."""
    if isinstance(value, Seq | Dict | SetOf | New | Error | Tensor):
        return value.kind
    if isinstance(value, Const | Obj | Array):
        return type(value.value)
    if isinstance(value, Sym):
        return {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(value.fake)]
    if isinstance(value, Iter):
        return types.GeneratorType if value.frame is not None else type(iter([]))
    if type(value) in _FIXED:
        return _FIXED[type(value)]
    raise Unsupported(f"the type of a {kind_word(value)}")


def is_instance(value: Value, kinds: Any) -> bool:
    """``isinstance(value, kinds)`` for types and tuples (and unions) of types."""
    if isinstance(kinds, tuple):
        return any(is_instance(value, kind) for kind in kinds)
    if isinstance(kinds, types.UnionType):
        return any(is_instance(value, kind) for kind in kinds.__args__)
    if isinstance(value, Const | Obj):
        return isinstance(value.value, kinds)
    if not isinstance(kinds, type):
        raise Unsupported("isinstance() with something that is no type")
    if isinstance(value, Tensor) and kinds is torch.nn.Buffer:
        return False
    kind = type_of(value)
    if kind is types.GeneratorType or not isinstance(value, Iter):
        return issubclass(kind, kinds)
    if "__next__" not in vars(kinds) and not isinstance(kinds, abc.ABCMeta) and kinds is not object:
        return False  # no class of iterators
    raise Unsupported("isinstance() of an iterator")
