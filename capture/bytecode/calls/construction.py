"""Calls of classes: containers, numbers, exceptions, and instances of the user's own."""

from __future__ import annotations

import collections
import enum
import functools
import inspect
import types
import typing
from typing import Any

import torch

from longhand.capture.bytecode.calls.tensors import operate
from longhand.capture.bytecode.containers import sets
from longhand.capture.bytecode.containers.items import store
from longhand.capture.bytecode.entry.breaks import SkipFrame, Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values import attributes
from longhand.capture.bytecode.values.constants import as_mapping, as_python, describe, fold_call, from_python
from longhand.capture.bytecode.values.kinds import type_of
from longhand.capture.bytecode.values.operators import truth
from longhand.capture.bytecode.values.tracked import (
    BoundMethod,
    Const,
    Dict,
    Error,
    New,
    Obj,
    PartialCall,
    Seq,
    SetOf,
    Slice,
    Super,
    Sym,
    Tensor,
    Value,
)

__all__ = ["construct", "fill_dict", "make_instance"]

_FOLDED = (int, float, bool, str, complex, bytes, range, torch.device, torch.finfo, torch.iinfo)
_MAPPINGS = (dict, collections.OrderedDict)
_REFUSED = (types.ModuleType, type)


def construct(trace: Trace, kind: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``kind(*args, **kwargs)``."""
    if kind is type and len(args) == 1:
        return Const(type_of(trace.force(args[0])))
    if kind is super:
        return _super(trace, args)
    if kind is bool:
        return Const(truth(trace, args[0])) if args else Const(False)
    if kind is slice:
        parts = [Const(None), *args, Const(None)] if len(args) == 1 else [*args, Const(None)][:3]
        return Slice((parts[0], parts[1], parts[2]))
    if kind is collections.deque:
        return _deque(trace, args, kwargs)
    if kind in (list, tuple, torch.Size):
        if kwargs or len(args) > 1:
            raise Unsupported(f"{kind.__qualname__}() with such arguments")
        return Seq(kind, trace.all_items(args[0]) if args else [])
    if kind in (set, frozenset):
        given = trace.force(args[0]) if args else Seq(tuple, [])
        if isinstance(given, SetOf):
            return SetOf(kind, kind(sets.members(given)))
        return sets.made_of(trace, kind, trace.all_items(given))
    if kind in _MAPPINGS:
        made = Dict(kind, {})
        fill_dict(trace, made, args, kwargs)
        return made
    if kind is collections.defaultdict:
        made = Dict(kind, {}, factory=args[0] if args else Const(None))
        fill_dict(trace, made, args[1:], kwargs)
        return made
    if kind is functools.partial:
        return PartialCall(args[0], args[1:], kwargs)
    if kind in _FOLDED:
        return _fold(trace, kind, args, kwargs)
    if issubclass(kind, BaseException):
        return _exception(trace, kind, args, kwargs)
    if issubclass(kind, enum.Enum):
        return Const(kind(*(as_python(trace, value) for value in args)))
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _named_tuple(trace, kind, args, kwargs)
    if issubclass(kind, torch.Tensor) or kind in _REFUSED:
        raise Unsupported(f"a {kind.__qualname__} is made")
    return make_instance(trace, kind, args, kwargs)


def _deque(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    given = dict(zip(("iterable", "maxlen"), args, strict=False)) | kwargs
    maxlen = as_python(trace, given.get("maxlen", Const(None)))
    items = trace.all_items(given["iterable"]) if "iterable" in given else []
    kept = items if maxlen is None else items[len(items) - maxlen :] if len(items) > maxlen else items
    return Seq(collections.deque, kept, maxlen=maxlen)


def _fold(trace: Trace, kind: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    first = trace.force(args[0]) if args else None
    if isinstance(first, Sym) and kind in (int, float) and len(args) == 1:
        return (
            first
            if kind is int and isinstance(first.fake, torch.SymInt)
            else operate(trace, _SYMBOLIC[kind], [first])
        )
    number = trace.values.number(first.fake) if isinstance(first, Tensor) else None
    if number is not None and kind in (int, float) and len(args) == 1:
        return Const(kind(number))
    if isinstance(first, Tensor):
        raise Unsupported(
            f"{kind.__name__}() needs a tensor's value", "Keep it a tensor, or compute it outside."
        )
    if kind is str and isinstance(first, Error) and not kwargs and len(args) == 1:
        return _message(trace, first)
    if kind is str and first is not None and not isinstance(first, Const | Seq | Dict):
        raise Unsupported(f"str() of a {describe(first)}")
    return fold_call(trace, kind, args, kwargs)


def _message(trace: Trace, error: Error) -> Value:
    """``str(error)``."""
    text = trace.classes.lookup(error.kind, "__str__")
    if isinstance(text, types.FunctionType):
        return trace.call_value(BoundMethod(trace.function(text, None), error), [], {})
    if not error.is_exact or text not in (BaseException.__str__, KeyError.__str__):
        raise Unsupported(f"str() of a {describe(error)}")
    args = [as_python(trace, part) for part in error.args]
    return Const(str(KeyError(*args) if text is KeyError.__str__ else Exception(*args)))


_SYMBOLIC: dict[type, Any] = {int: torch.sym_int, float: torch.sym_float}


def fill_dict(trace: Trace, made: Dict, args: list[Value], kwargs: dict[str, Value]) -> None:
    """``made.update(*args, **kwargs)``, without marking it as changed."""
    if args:
        given = trace.force(args[0])
        if isinstance(given, New | Obj) and attributes.has(trace, given, "keys"):
            given = as_mapping(trace, given)
        if isinstance(given, Dict):
            trace.guard_keys(given)
            made.merge(given)
        else:
            for pair in trace.all_items(given):
                parts = trace.all_items(pair)
                if len(parts) != 2:
                    raise Unsupported("a dict is made of something else than pairs")
                store(trace, made, parts[0], parts[1])
    made.items.update(kwargs)


def _super(trace: Trace, args: list[Value]) -> Value:
    frame = trace.stack[-1]
    if args:
        kind, owner = as_python(trace, args[0]), trace.force(args[1])
    else:
        cell = frame.cells.get("__class__")
        instance = frame.first_argument()
        if cell is None or cell.content is None or instance is None:
            raise Unsupported("super() outside of a method")
        kind, owner = as_python(trace, cell.content), trace.force(instance)
    return Super(kind, owner)


def _exception(trace: Trace, kind: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    made = Error(kind, list(args), is_exact=True)
    initial = trace.classes.lookup(kind, "__init__")
    if isinstance(initial, types.FunctionType):
        trace.call_value(BoundMethod(trace.function(initial, None), made), args, kwargs)
    elif kwargs:
        raise Unsupported("an exception is made with keywords")
    return made


def _named_tuple(trace: Trace, kind: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    for name in ("__init__", "__new__"):
        member = trace.classes.lookup(kind, name)
        generated = name == "__new__" and getattr(member, "__module__", "").startswith("namedtuple_")
        if isinstance(member, types.FunctionType) and not generated and member.__qualname__.count(".") > 0:
            if member.__code__.co_filename.startswith("<"):
                continue
            raise Unsupported(f"{kind.__qualname__} has its own {name}")
    given = dict(zip(kind._fields, args, strict=False)) | kwargs
    given = {**{key: from_python(value) for key, value in kind._field_defaults.items()}, **given}
    if set(given) != set(kind._fields) or len(args) > len(kind._fields):
        raise Unsupported(f"{kind.__qualname__} is made with arguments that do not fit")
    return Seq(kind, [given[name] for name in kind._fields])


def make_instance(trace: Trace, kind: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """An instance of a class written in Python."""
    meta_call = trace.classes.lookup(type(kind), "__call__")
    if isinstance(meta_call, types.FunctionType):
        raise Unsupported(f"{kind.__qualname__} has a metaclass of its own")
    maker = trace.classes.lookup(kind, "__new__")
    if isinstance(maker, staticmethod):
        maker = maker.__func__
    if isinstance(maker, types.FunctionType) and kind.__new__ is not _generic_new():
        made = trace.call_value(trace.function(maker, None), [Const(kind), *args], kwargs)
        if not isinstance(made, New) or not issubclass(made.kind, kind):
            return made
    else:
        made = empty_instance(kind)
    initial = trace.classes.lookup(kind, "__init__")
    if isinstance(initial, types.FunctionType):
        trace.call_value(BoundMethod(trace.function(initial, None), made), args, kwargs)
    elif isinstance(made.storage, Dict):
        fill_dict(trace, made.storage, args, kwargs)
    elif isinstance(made.storage, Seq):
        made.storage.items.extend(trace.all_items(args[0]) if args else [])
    elif (args or kwargs) and not isinstance(maker, types.FunctionType):
        raise Unsupported(f"{kind.__qualname__}() takes no arguments")
    return made


def _generic_new() -> Any:
    return getattr(typing.Generic, "__new__", None)


def empty_instance(kind: type) -> New:
    """``kind.__new__(kind)`` for classes whose memory capture can rebuild.

    Raises:
        Unsupported: It derives from a built-in type that has its own memory.
    """
    if inspect.isabstract(kind):
        raise Unsupported(f"{kind.__qualname__}, which is abstract, is made")
    if hasattr(kind, "__del__"):  # when it goes is seen, and what is only tracked never does
        raise SkipFrame(f"a {kind.__qualname__} is made, which has a __del__")
    storage: Value | None = None
    for base in kind.__mro__:
        if base in (*_MAPPINGS, list, collections.deque):
            storage = Dict(base, {}, is_storage=True) if base in _MAPPINGS else Seq(base, [])
            break
        if not base.__flags__ & (1 << 9) and base is not object:  # made by C
            raise Unsupported(f"a {kind.__qualname__} is made, which derives from {base.__qualname__}")
    return New(kind, storage=storage)
