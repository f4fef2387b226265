"""Methods of built-in types, on tracked containers, strings, iterators and instances."""

from __future__ import annotations

import contextvars
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

from longhand.capture.bytecode.calls.construction import empty_instance, fill_dict
from longhand.capture.bytecode.calls.context_variables import call_context_variable
from longhand.capture.bytecode.calls.tensors import tensor_method
from longhand.capture.bytecode.containers import dicts, sets
from longhand.capture.bytecode.containers.items import delete_item, get_item, set_item
from longhand.capture.bytecode.entry.breaks import Raised, Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values import attributes
from longhand.capture.bytecode.values.arrays import METHODS
from longhand.capture.bytecode.values.attribute_writes import put
from longhand.capture.bytecode.values.constants import (
    as_key,
    as_python,
    describe,
    fold,
    from_key,
    from_python,
)
from longhand.capture.bytecode.values.operators import compare, contains, is_found, is_none, truth
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
    Seq,
    SetOf,
    Super,
    Sym,
    Tensor,
    Value,
)

__all__ = ["call_method"]

_FOLDED = (
    str, bytes, int, float, complex, range, types.MappingProxyType, torch.dtype, torch.device, torch.finfo,
    torch.layout, type(None), bool,
)  # fmt: skip


def call_method(trace: Trace, bound: Bound, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``bound(*args, **kwargs)`` by what the built-in type does."""
    owner, name = bound.owner, bound.name
    if isinstance(owner, Super):
        if name == "__new__":
            return Const(None) if not args else empty_instance(as_python(trace, args[0]))
        owner = owner.owner
    owner = trace.force(owner)
    if isinstance(owner, Tensor):
        return tensor_method(trace, name, [owner, *args], kwargs)
    if isinstance(owner, New | Obj):
        return _of_instance(trace, owner, name, args, kwargs)
    if isinstance(owner, Seq):
        return _of_sequence(trace, owner, name, args, kwargs)
    if isinstance(owner, Dict):
        return _of_dict(trace, owner, name, args, kwargs)
    if isinstance(owner, SetOf):
        return _of_set(trace, owner, name, args)
    if isinstance(owner, Iter):
        return _of_iterator(trace, owner, name, args)
    if isinstance(owner, Func) and name == "__get__":
        return BoundMethod(owner, args[0]) if not is_none(trace, args[0]) else owner
    if isinstance(owner, Const | IntRange | Array):
        return _of_constant(trace, owner, name, args, kwargs)
    if isinstance(owner, Error) and name in ("__init__", "with_traceback", "add_note"):
        if name == "__init__":
            owner.args = list(args)
            return Const(None)
        return owner
    if isinstance(owner, Sym) and name == "__index__":
        return owner
    raise Unsupported(f"the method {name} of a {describe(owner)}")


def _of_constant(
    trace: Trace, owner: Const | IntRange | Array, name: str, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    value = owner.value
    if isinstance(owner, Array) and name not in METHODS:
        raise Unsupported(f"the method {name} of an array of numpy's")
    if isinstance(value, type):
        if name == "__new__":
            return empty_instance(as_python(trace, args[0]))
        if name == "fromkeys" and issubclass(value, dict):
            filler = args[1] if len(args) > 1 else Const(None)
            keys = [as_key(trace, part) for part in trace.all_items(args[0])]
            return Dict(value, dict.fromkeys(keys, filler))
        if name == "__subclasscheck__" or name == "mro":
            raise Unsupported(f"{value.__qualname__}.{name}")
    if isinstance(value, str) and name == "join":
        parts = [as_python(trace, part) for part in trace.all_items(args[0])]
        return Const(value.join(parts))
    if not isinstance(value, _FOLDED) and not (isinstance(value, type) and value in _FOLDED):
        module = type(value).__module__
        if module not in ("inspect", "enum", "torch", "torch.torch_version", "typing", "re", "numpy"):
            raise Unsupported(f"the method {name} of a {describe(owner)}")
    given = [as_python(trace, part) for part in args]
    named = {key: as_python(trace, part) for key, part in kwargs.items()}
    if isinstance(owner, Array):
        return fold(getattr(type(value), name), value, *given, **named)
    try:
        result = getattr(value, name)(*given, **named)
    except Exception as error:
        raise Raised(Error(type(error), [from_python(part) for part in error.args])) from None
    if isinstance(result, dicts.VIEW_TYPES) or name in ("keys", "values", "items"):
        return Seq(tuple, [from_python(part) for part in result])
    return from_python(result)


def _of_instance(
    trace: Trace, owner: New | Obj, name: str, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    if owner.storage is not None:
        if name == "__init__" and isinstance(owner, New):
            if isinstance(owner.storage, Dict):
                fill_dict(trace, owner.storage, args, kwargs)
            elif args:
                assert isinstance(owner.storage, Seq)
                owner.storage.items.extend(trace.all_items(args[0]))
            return Const(None)
        kind = owner.storage.kind  # type: ignore[attr-defined]
        if name not in vars(object) or name in ("__eq__", "__ne__", "__len__"):
            if not hasattr(kind, name):
                raise Unsupported(f"the method {name} of a {describe(owner)}")
            if name == "__getitem__" and isinstance(owner.storage, Dict) and len(args) == 1:
                return _item_or_default(trace, owner, owner.storage, args[0])
            return call_method(trace, Bound(owner.storage, name), args, kwargs)
    if name in ("__init__", "__init_subclass__"):
        return Const(None)
    if name == "__setattr__":
        put(trace, owner, as_python(trace, args[0]), args[1], plain=True)
        return Const(None)
    if name == "__getattribute__":
        return attributes.get_plain(trace, owner, as_python(trace, args[0]))
    if name in ("__eq__", "__ne__"):
        return Const((owner is trace.force(args[0])) == (name == "__eq__"))
    if name == "__reduce_ex__" or not isinstance(owner, Obj):
        raise Unsupported(f"the method {name} of a {describe(owner)}")
    if isinstance(owner.value, contextvars.ContextVar):
        return call_context_variable(trace, owner, name, args)
    if isinstance(owner.value, types.MappingProxyType | types.SimpleNamespace):
        raise Unsupported(f"the method {name} of a {describe(owner)}")
    raise Unsupported(f"the built-in method {name} of a {describe(owner)} that comes from outside")


def _item_or_default(trace: Trace, owner: New | Obj, held: Dict, key: Value) -> Value:
    """``owner[key]`` of a subclass of dict: what is missing, the class may know."""
    default = trace.classes.lookup(owner.kind if isinstance(owner, New) else type(owner.value), "__missing__")
    python = as_key(trace, key)
    trace.guard_key(held, python)
    if python not in held.items and isinstance(default, types.FunctionType):
        return trace.call_value(BoundMethod(trace.function(default, None), owner), [key], {})
    return get_item(trace, held, key)


# Sequences


def _of_sequence(trace: Trace, owner: Seq, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if name in _DUNDERS:
        return _DUNDERS[name](trace, owner, args)
    if name in ("index", "count", "copy"):
        return _question(trace, owner, name, args)
    if name == "numel" and owner.kind is torch.Size:
        total: Value = Const(1)
        for part in owner.items:
            total = trace.call_value(Const(operator.mul), [total, part], {})
        return total
    if name == "_replace" and hasattr(owner.kind, "_fields"):
        items = [kwargs.get(field, part) for field, part in zip(owner.kind._fields, owner.items, strict=True)]
        return Seq(owner.kind, items)
    if name == "_asdict" and hasattr(owner.kind, "_fields"):
        return Dict(dict, dict(zip(owner.kind._fields, owner.items, strict=True)))
    if issubclass(owner.kind, tuple):
        raise Unsupported(f"the method {name} of a {owner.kind.__qualname__}")
    if kwargs and name != "sort":
        raise Unsupported(f"list.{name} with keywords")
    trace.changing(owner)
    return _write(trace, owner, name, args, kwargs)


def _question(trace: Trace, owner: Seq, name: str, args: list[Value]) -> Value:
    if name == "copy":
        return Seq(owner.kind, list(owner.items))
    wanted = trace.force(args[0])
    positions = [i for i, part in enumerate(owner.items) if is_found(trace, trace.force(part), wanted)]
    if len(args) > 1:
        raise Unsupported(f"{name} within bounds")
    if name == "count":
        return Const(len(positions))
    if not positions:
        text = (
            f"{as_python(trace, args[0])!r} is not in list"
            if owner.kind is list
            else "tuple.index(x): x not in tuple"
        )
        raise Raised(Error(ValueError, [Const(text)]))
    return Const(positions[0])


def _write(trace: Trace, owner: Seq, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    items = owner.items
    if name == "append":
        items.append(args[0])
        _drop(owner, first=True)
    elif name == "appendleft":
        items.insert(0, args[0])
        _drop(owner, first=False)
    elif name == "extend":
        items.extend(trace.all_items(args[0]))
        _drop(owner, first=True)
    elif name == "insert" and owner.maxlen is None:
        items.insert(as_python(trace, args[0]), args[1])
    elif name in ("pop", "popleft"):
        where = 0 if name == "popleft" else as_python(trace, args[0]) if args else -1
        if not -len(items) <= where < len(items):
            text = "pop from empty list" if not items else "pop index out of range"
            raise Raised(Error(IndexError, [Const(text)]))
        return trace.force(items.pop(where))
    elif name == "remove":
        for position, part in enumerate(items):
            if is_found(trace, trace.force(part), trace.force(args[0])):
                del items[position]
                return Const(None)
        raise Raised(Error(ValueError, [Const("list.remove(x): x not in list")]))
    elif name == "clear":
        items.clear()
    elif name == "reverse":
        items.reverse()
    elif name == "sort":
        made = trace.call_value(Const(sorted), [Seq(list, list(items))], kwargs)
        assert isinstance(made, Seq)
        items[:] = made.items
    else:
        raise Unsupported(f"the method {name} of a {owner.kind.__qualname__}")
    return Const(None)


def _drop(owner: Seq, *, first: bool) -> None:
    """What a bounded deque has too much."""
    excess = len(owner.items) - owner.maxlen if owner.maxlen is not None else 0
    if excess > 0:
        del owner.items[slice(0, excess) if first else slice(len(owner.items) - excess, None)]


def _set_item(trace: Trace, owner: Value, args: list[Value]) -> Value:
    set_item(trace, owner, args[0], args[1])
    return Const(None)


def _del_item(trace: Trace, owner: Value, args: list[Value]) -> Value:
    delete_item(trace, owner, args[0])
    return Const(None)


def _unequal(trace: Trace, owner: Value, args: list[Value]) -> Value:
    return compare(trace, "!=", owner, args[0])


_DUNDERS: dict[str, Callable[[Trace, Any, list[Value]], Value]] = {
    "__getitem__": lambda trace, owner, args: get_item(trace, owner, args[0]),
    "__setitem__": _set_item,
    "__delitem__": _del_item,
    "__contains__": lambda trace, owner, args: Const(contains(trace, owner, args[0])),
    "__len__": lambda trace, owner, args: trace.call_value(Const(len), [owner], {}),
    "__iter__": lambda trace, owner, args: trace.iterate(owner),
    "__eq__": lambda trace, owner, args: compare(trace, "==", owner, args[0]),
    "__ne__": _unequal,
}


# Dicts and sets


def _of_dict(trace: Trace, owner: Dict, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if name in _DUNDERS:
        return _DUNDERS[name](trace, owner, args)
    if name in ("get", "setdefault", "pop"):
        return _with_default(trace, owner, name, args)
    if name in ("keys", "values", "items", "copy", "popitem", "move_to_end", "clear", "update"):
        trace.guard_keys(owner)
    if name in ("keys", "values", "items"):
        return dicts.view(trace, owner, name)
    if name == "copy":
        return Dict(owner.kind, dict(owner.items), factory=owner.factory, keys=dict(owner.keys))
    trace.changing(owner)
    if name == "update":
        fill_dict(trace, owner, args, kwargs)
    elif name == "clear":
        owner.items.clear()
        owner.keys.clear()
    elif name == "popitem" and owner.items and not args and not kwargs:
        last = next(reversed(owner.items))
        key = owner.keys.get(last) or from_key(trace, last)
        return Seq(tuple, [key, trace.force(owner.remove(last))])
    elif name == "move_to_end":
        key = as_key(trace, args[0])
        if key not in owner.items:
            raise Raised(Error(KeyError, [args[0]], is_exact=True))
        is_last = truth(trace, args[1] if len(args) > 1 else kwargs.get("last", Const(True)))
        value = owner.items.pop(key)
        owner.items = {**owner.items, key: value} if is_last else {key: value, **owner.items}
    else:
        raise Unsupported(f"the method {name} of a dict")
    return Const(None)


def _with_default(trace: Trace, owner: Dict, name: str, args: list[Value]) -> Value:
    key = as_key(trace, args[0])
    trace.guard_key(owner, key)
    default = args[1] if len(args) > 1 else Const(None)
    if key in owner.items:
        value = trace.force(owner.items[key])
        owner.items[key] = value
        if name == "pop":
            trace.changing(owner)
            owner.remove(key)
        return value
    if name == "setdefault":
        set_item(trace, owner, args[0], default)
    if name == "pop" and len(args) == 1:
        raise Raised(Error(KeyError, [args[0]], is_exact=True))
    return default


def _of_set(trace: Trace, owner: SetOf, name: str, args: list[Value]) -> Value:
    if name in ("__contains__", "__iter__", "__len__", "__eq__", "__ne__"):
        return _DUNDERS[name](trace, owner, args)
    return sets.method(trace, owner, name, args)


def _of_iterator(trace: Trace, owner: Iter, name: str, args: list[Value]) -> Value:
    if name == "__next__":
        return trace.call_value(Const(next), [owner], {})
    if name == "__iter__":
        return owner
    if name == "close" and owner.frame is not None and (owner.frame.finished or owner.frame.index == 0):
        owner.frame.finished = True
        return Const(None)
    if name == "send" and owner.frame is not None and owner.frame.index > 0:
        owner.frame.sent = args[0]
        return trace.call_value(Const(next), [owner], {})
    if name == "throw" and owner.frame is not None and args:
        error = trace.force(args[-1] if len(args) < 3 else args[1])
        if isinstance(error, Error):
            owner.frame.thrown = error
            return trace.call_value(Const(next), [owner], {})
    raise Unsupported(f"the method {name} of an iterator")
