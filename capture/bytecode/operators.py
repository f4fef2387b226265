"""Operators, items, truth and identity of tracked values, and the way between them and plain Python constants."""

from __future__ import annotations

import collections
import enum
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

from longhand.capture.bytecode.breaks import Raised, Unsupported
from longhand.capture.bytecode.tensors import has_tensor, operate
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values import (
    Bound,
    Cell,
    Const,
    Dict,
    Error,
    Func,
    Iter,
    Method,
    New,
    Obj,
    Partial,
    Range,
    Seq,
    SetOf,
    Slice,
    Sym,
    Tensor,
    Value,
)

__all__ = [
    "BINARY_NAMES",
    "NotConstant",
    "as_key",
    "as_mapping",
    "as_python",
    "binary",
    "compare",
    "contains",
    "delete_item",
    "from_key",
    "from_python",
    "get_item",
    "is_none",
    "is_same",
    "set_item",
    "store",
    "truth",
    "unary",
]

_BINARY: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "&": operator.and_,
    "//": operator.floordiv,
    "<<": operator.lshift,
    "@": operator.matmul,
    "*": operator.mul,
    "%": operator.mod,
    "|": operator.or_,
    "**": operator.pow,
    ">>": operator.rshift,
    "-": operator.sub,
    "/": operator.truediv,
    "^": operator.xor,
}
_INPLACE: dict[str, Callable[..., Any]] = {
    "+": operator.iadd,
    "&": operator.iand,
    "//": operator.ifloordiv,
    "<<": operator.ilshift,
    "@": operator.imatmul,
    "*": operator.imul,
    "%": operator.imod,
    "|": operator.ior,
    "**": operator.ipow,
    ">>": operator.irshift,
    "-": operator.isub,
    "/": operator.itruediv,
    "^": operator.ixor,
}
BINARY_NAMES = [*_BINARY, *(name + "=" for name in _BINARY)]
_METHODS = {
    "+": "add", "&": "and", "//": "floordiv", "<<": "lshift", "@": "matmul", "*": "mul", "%": "mod", "|": "or",
    "**": "pow", ">>": "rshift", "-": "sub", "/": "truediv", "^": "xor",
}  # fmt: skip
_COMPARE: dict[str, Callable[..., Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}
_UNARY: dict[str, Callable[..., Any]] = {
    "UNARY_NEGATIVE": operator.neg,
    "UNARY_INVERT": operator.invert,
    "UNARY_POSITIVE": operator.pos,
}


class ModuleSlice(list):
    """Stands for the container that slicing a ModuleList makes, as long as it is only iterated over."""


class NotConstant(Unsupported):
    """A value is needed that capture does not have."""


def from_python(value: Any) -> Value:
    """Tracked values for a constant that capture itself computed."""
    kind = type(value)
    if (
        kind is tuple
        or kind is list
        or kind is torch.Size
        or (isinstance(value, tuple) and hasattr(kind, "_fields"))
    ):
        return Seq(kind, [from_python(part) for part in value])
    if kind in (dict, collections.OrderedDict):
        return Dict(kind, {key: from_python(part) for key, part in value.items()})
    if kind in (set, frozenset):
        return SetOf(kind, dict.fromkeys(value))
    if kind is range:
        return Range(value)
    if kind is slice:
        return Slice((from_python(value.start), from_python(value.stop), from_python(value.step)))
    return Const(value)


def as_python(trace: Trace, value: Value) -> Any:
    """The plain Python value.

    Raises:
        NotConstant: It is not known, or it is an object with an identity.
    """
    value = trace.force(value)
    if isinstance(value, Const | Range):
        return value.value
    if isinstance(value, Seq):
        parts = [as_python(trace, part) for part in value.items]
        if value.kind in (list, tuple, torch.Size):
            return value.kind(parts)
        if hasattr(value.kind, "_fields"):
            return value.kind(*parts)
    if isinstance(value, Slice):
        return slice(*(as_python(trace, part) for part in value.parts))
    if isinstance(value, Dict) and value.kind in (dict, collections.OrderedDict):
        trace.guard_keys(value)
        return value.kind((key, as_python(trace, part)) for key, part in value.items.items())
    if isinstance(value, SetOf) and not any(isinstance(key, Value) for key in value.items):
        return value.kind(value.items)
    if isinstance(value, Sym):
        raise NotConstant("a symbolic size is needed as a plain number")
    if isinstance(value, Tensor):
        raise NotConstant("a tensor's value is needed in Python")
    raise NotConstant(f"a {describe(value)} is needed as a constant")


def describe(value: Value) -> str:
    """A word for people."""
    if isinstance(value, Obj):
        return type(value.value).__qualname__
    if isinstance(value, New | Error):
        return value.kind.__qualname__
    return type(value).__name__.lower()


def _hashes_by_identity(kind: type) -> bool:
    found: Any = kind.__hash__
    return found is object.__hash__


def as_key(trace: Trace, value: Value) -> Any:
    """A value as a dict key: constants by value, what has an identity by itself."""
    value = trace.force(value)
    if isinstance(value, Obj) and _hashes_by_identity(type(value.value)):
        return value.value
    if isinstance(value, Func) and value.real is not None:
        return value.real
    if isinstance(value, Tensor | Func) or (isinstance(value, New) and _hashes_by_identity(value.kind)):
        return value  # its own key: by identity
    key = as_python(trace, value)
    try:
        hash(key)
    except TypeError:
        raise Unsupported("an unhashable key") from None
    return key


def from_key(trace: Trace, key: Any) -> Value:
    """The tracked value of a key that as_key() gave."""
    if isinstance(key, Value):
        return key
    return trace.known(key) or from_python(key)


def as_mapping(trace: Trace, value: Value) -> Dict:
    """The dict behind a mapping that is spread with ``**``."""
    value = trace.force(value)
    if isinstance(value, New | Obj) and isinstance(value.storage, Dict):
        return value.storage
    if not isinstance(value, Dict):
        raise Unsupported(f"a {describe(value)} is spread with **")
    return value


def store(trace: Trace, owner: Dict, key: Value, value: Value) -> None:
    """``owner[key] = value`` for a dict that capture made or that is already marked as changed."""
    python = as_key(trace, key)
    owner.items[python] = value
    owner.keys[python] = key


def truth(trace: Trace, value: Value) -> bool:
    """``bool(value)``."""
    value = trace.force(value)
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, Seq):
        return bool(value.items)
    if isinstance(value, Dict):
        trace.guard_keys(value)
        return bool(value.items)
    if isinstance(value, SetOf):
        return bool(value.items)
    if isinstance(value, Range):
        return bool(value.value)
    if isinstance(value, Sym):
        return bool(value.fake)
    if isinstance(value, Tensor):
        raise Unsupported(
            "a branch depends on a tensor's values", "Use torch.where, or compute the condition outside."
        )
    if isinstance(value, Func | Method | Bound | Partial | Cell | Iter | Slice | Error):
        return True
    if isinstance(value, New | Obj):
        kind = kind_of(value)
        if value.storage is not None and not _redefines(kind, "__bool__", "__len__"):
            return truth(trace, value.storage)
        for name in ("__bool__", "__len__"):
            if any(name in vars(base) for base in kind.__mro__):
                found = trace.get_attribute(value, name)
                return truth(trace, trace.call_value(found, [], {}))
        return True
    raise Unsupported(f"the truth of a {describe(value)}")


def kind_of(value: New | Obj) -> type:
    """The class of an instance."""
    return value.kind if isinstance(value, New) else type(value.value)


def _redefines(kind: type, *names: str) -> bool:
    """Whether a class has methods of its own, in Python, under these names."""
    found = (next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None) for name in names)
    return any(isinstance(method, types.FunctionType) for method in found)


def is_none(trace: Trace, value: Value) -> bool:
    value = trace.force(value)
    return isinstance(value, Const) and value.value is None


def is_same(trace: Trace, left: Value, right: Value) -> bool:
    """``left is right``."""
    left, right = trace.force(left), trace.force(right)
    if left is right:
        return True
    if isinstance(left, Const) and isinstance(right, Const):
        if isinstance(left.value, int | float | str | bytes | complex) and not isinstance(left.value, bool):
            if type(left.value) is type(right.value) and left.value == right.value:
                raise Unsupported("the identity of equal constants is asked for")
            return False
        if isinstance(left.value, torch.device | torch.finfo) and left.value == right.value:
            raise Unsupported("the identity of equal constants is asked for")
        return left.value is right.value
    if isinstance(left, Const) or isinstance(right, Const):
        return False
    if (
        isinstance(left, Seq)
        and isinstance(right, Seq)
        and issubclass(left.kind, tuple)
        and left.kind is right.kind
    ):
        raise Unsupported("the identity of tuples is asked for")
    if left.source is not None and right.source is not None:
        # Two real objects that differ now: that they still do in a later call must be checked.
        text = right.source.expression().replace("{", "{{").replace("}", "}}")
        trace.guards.add(left.source, "{} is not " + text, f"{left.source.name} is not {right.source.name}")
    if isinstance(left, Method | Bound) or isinstance(right, Method | Bound):
        raise Unsupported("the identity of bound methods is asked for")
    return False


def contains(trace: Trace, owner: Value, key: Value) -> bool:
    """``key in owner``."""
    owner, key = trace.force(owner), trace.force(key)
    if (
        isinstance(owner, New | Obj)
        and owner.storage is not None
        and not _redefines(kind_of(owner), "__contains__")
    ):
        owner = owner.storage
    if isinstance(owner, Dict):
        python = as_key(trace, key)
        trace.guard_key(owner, python)
        return python in owner.items
    if isinstance(owner, SetOf):
        return as_key(trace, key) in owner.items
    if isinstance(owner, Seq):
        for part in owner.items:
            part = trace.force(part)
            if part is key or (
                isinstance(part, Const) and isinstance(key, Const) and part.value == key.value
            ):
                return True
            if not isinstance(part, Const) and truth(trace, compare(trace, "==", part, key)):
                return True
        return False
    if isinstance(owner, Range | Const) and isinstance(key, Const):
        return operator.contains(owner.value, key.value)
    if isinstance(owner, New | Obj):
        found = trace.get_attribute(owner, "__contains__")
        return truth(trace, trace.call_value(found, [key], {}))
    raise Unsupported(f"`in` a {describe(owner)}")


def unary(trace: Trace, name: str, value: Value) -> Value:
    value = trace.force(value)
    if name == "UNARY_NOT":
        return Const(not truth(trace, value))
    if isinstance(value, Tensor | Sym):
        return operate(trace, _UNARY[name], [value])
    if isinstance(value, New | Obj):
        word = {"UNARY_NEGATIVE": "__neg__", "UNARY_INVERT": "__invert__", "UNARY_POSITIVE": "__pos__"}[name]
        return trace.call_value(trace.get_attribute(value, word), [], {})
    return from_python(_UNARY[name](as_python(trace, value)))


def binary(trace: Trace, symbol: str, left: Value, right: Value) -> Value:
    """``left symbol right``; a symbol that ends with = works in place where the left side can."""
    left, right = trace.force(left), trace.force(right)
    in_place = symbol.endswith("=")
    plain = symbol.removesuffix("=") if in_place else symbol
    if isinstance(left, Tensor | Sym) or isinstance(right, Tensor | Sym):
        if isinstance(left, Seq) and plain == "*" and isinstance(right, Sym):
            raise Unsupported("a list is repeated a symbolic number of times")
        table = _INPLACE if in_place and isinstance(left, Tensor) else _BINARY
        if isinstance(left, Const) and isinstance(left.value, str):
            raise Unsupported("a tensor is formatted")
        return operate(trace, table[plain], [left, right])
    if isinstance(left, Seq) and isinstance(right, Seq) and plain == "+":
        return _concatenate(trace, left, right, in_place)
    if plain == "*" and (isinstance(left, Seq) or isinstance(right, Seq)):
        sequence, times = (left, right) if isinstance(left, Seq) else (right, left)
        assert isinstance(sequence, Seq)
        if in_place and sequence is left and sequence.kind is list:
            raise Unsupported("a list is repeated in place")
        assert isinstance(sequence, Seq)
        kind = (
            tuple if issubclass(sequence.kind, tuple) and sequence.kind is not torch.Size else sequence.kind
        )
        return Seq(kind, sequence.items * as_python(trace, times))
    if isinstance(left, Seq) and left.kind is list and in_place and plain == "+":
        raise Unsupported("a list is extended by += with something that is no list")
    if isinstance(left, Dict) and isinstance(right, Dict) and plain == "|":
        trace.guard_keys(left)
        trace.guard_keys(right)
        if in_place:
            trace.changing(left)
            left.items.update(right.items)
            return left
        return Dict(left.kind, {**left.items, **right.items})
    if isinstance(left, SetOf) and isinstance(right, SetOf):
        if in_place and left.kind is set:
            trace.changing(left)
            left.items = dict.fromkeys(_BINARY[plain](set(left.items), set(right.items)))
            return left
        return SetOf(left.kind, dict.fromkeys(_BINARY[plain](set(left.items), set(right.items))))
    if isinstance(left, New | Obj) or isinstance(right, New | Obj):
        return _user_binary(trace, plain, left, right, in_place)
    return _fold(_BINARY[plain], as_python(trace, left), as_python(trace, right))


def _fold(function: Callable[..., Any], *args: Any) -> Value:
    try:
        return from_python(function(*args))
    except Exception as error:
        raise Raised(Error(type(error), [from_python(part) for part in error.args])) from None


def _concatenate(trace: Trace, left: Seq, right: Seq, in_place: bool) -> Value:
    if in_place and left.kind is list:
        trace.changing(left)
        left.items.extend(list(right.items))
        return left
    if (left.kind is list) != (right.kind is list):
        raise Unsupported("a list and a tuple are added")
    kind = tuple if issubclass(left.kind, tuple) and left.kind is not torch.Size else left.kind
    return Seq(kind, [*left.items, *right.items])


def _user_binary(trace: Trace, symbol: str, left: Value, right: Value, in_place: bool) -> Value:
    word = _METHODS[symbol]
    tries = [(left, f"__{word}__", right), (right, f"__r{word}__", left)]
    if in_place:
        tries.insert(0, (left, f"__i{word}__", right))
    for owner, name, other in tries:
        kind = type(owner.value) if isinstance(owner, Obj) else owner.kind if isinstance(owner, New) else None
        if kind is None or not any(name in vars(base) for base in kind.__mro__):
            continue
        result = trace.call_value(trace.get_attribute(owner, name), [other], {})
        if not (isinstance(result, Const) and result.value is NotImplemented):
            return result
    raise Unsupported(f"{describe(left)} {symbol} {describe(right)}")


def compare(trace: Trace, symbol: str, left: Value, right: Value) -> Value:
    left, right = trace.force(left), trace.force(right)
    if isinstance(left, Tensor | Sym) or isinstance(right, Tensor | Sym):
        if isinstance(left, Seq | Dict) or isinstance(right, Seq | Dict):
            raise Unsupported("a tensor is compared with a container")
        return operate(trace, _COMPARE[symbol], [left, right])
    if (
        isinstance(left, Seq)
        and isinstance(right, Seq)
        and has_tensor(trace, left, right)
        and symbol in ("==", "!=")
    ):
        return Const(_equal_items(trace, left, right) == (symbol == "=="))
    for owner, other, name in ((left, right, symbol), (right, left, _MIRRORED[symbol])):
        kind = type(owner.value) if isinstance(owner, Obj) else owner.kind if isinstance(owner, New) else None
        if kind is None:
            continue
        method = f"__{_WORDS[name]}__"
        found = next((vars(base)[method] for base in kind.__mro__ if method in vars(base)), None)
        if isinstance(found, types.FunctionType):
            result = trace.call_value(trace.get_attribute(owner, method), [other], {})
            if not (isinstance(result, Const) and result.value is NotImplemented):
                return result
        elif found not in (object.__eq__, object.__ne__):
            raise Unsupported(f"a {describe(owner)} is compared")
    if symbol in ("==", "!=") and (_has_identity(left) or _has_identity(right)):
        return Const(is_same(trace, left, right) == (symbol == "=="))
    return _fold(_COMPARE[symbol], as_python(trace, left), as_python(trace, right))


_WORDS = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}
_MIRRORED = {"<": ">", "<=": ">=", "==": "==", "!=": "!=", ">": "<", ">=": "<="}


def _has_identity(value: Value) -> bool:
    return isinstance(value, Obj | Func | Error) or (isinstance(value, New) and value.storage is None)


def _equal_items(trace: Trace, left: Seq, right: Seq) -> bool:
    if issubclass(left.kind, list) != issubclass(right.kind, list) or len(left.items) != len(right.items):
        return False
    for one, other in zip(left.items, right.items, strict=True):
        if trace.force(one) is trace.force(other):
            continue
        if not truth(trace, compare(trace, "==", one, other)):
            return False
    return True


def get_item(trace: Trace, owner: Value, key: Value) -> Value:
    """``owner[key]``."""
    owner, key = trace.force(owner), trace.force(key)
    if isinstance(owner, Tensor):
        return operate(trace, operator.getitem, [owner, key])
    if isinstance(owner, Seq):
        if isinstance(key, Tensor):
            raise NotConstant("a list is indexed by a tensor")
        where = as_python(trace, key)
        if isinstance(where, slice):
            kind = tuple if hasattr(owner.kind, "_fields") else owner.kind
            return Seq(kind, owner.items[where])
        try:
            value = trace.force(owner.items[where])
        except (IndexError, TypeError) as error:
            raise Raised(Error(type(error), trace.constants(error.args))) from None
        owner.items[where] = value
        return value
    if isinstance(owner, Dict):
        python = as_key(trace, key)
        trace.guard_key(owner, python)
        if python not in owner.items:
            if owner.factory is not None and not is_none(trace, owner.factory):
                made = trace.call_value(owner.factory, [], {})
                set_item(trace, owner, key, made)
                return made
            raise Raised(Error(KeyError, [key]))
        owner.items[python] = trace.force(owner.items[python])
        return owner.items[python]
    if isinstance(owner, Range):
        return _fold(operator.getitem, owner.value, as_python(trace, key))
    if isinstance(owner, Const) and isinstance(owner.value, str | bytes | type | enum.EnumMeta):
        return _fold(operator.getitem, owner.value, as_python(trace, key))
    if isinstance(owner, Obj) and isinstance(owner.value, torch.nn.ModuleList | torch.nn.Sequential):
        where = as_python(trace, key)
        if isinstance(where, slice):
            modules = trace.get_attribute(owner, "_modules")
            assert isinstance(modules, Dict)
            trace.guard_keys(modules)
            return Seq(ModuleSlice, list(modules.items.values())[where])
    if isinstance(owner, New | Obj | Bound):
        found = trace.get_attribute(owner, "__getitem__")
        return trace.call_value(found, [key], {})
    if isinstance(owner, Const):
        return _fold(operator.getitem, owner.value, as_python(trace, key))
    raise Unsupported(f"an item of a {describe(owner)}")


def set_item(trace: Trace, owner: Value, key: Value, value: Value) -> None:
    """``owner[key] = value``."""
    owner, key = trace.force(owner), trace.force(key)
    if isinstance(owner, Tensor):
        operate(trace, operator.setitem, [owner, key, value])
    elif isinstance(owner, Seq) and not issubclass(owner.kind, tuple):
        where = as_python(trace, key)
        trace.changing(owner)
        if isinstance(where, slice):
            raise Unsupported("a slice of a list is assigned to")
        try:
            owner.items[where] = value
        except (IndexError, TypeError) as error:
            raise Raised(Error(type(error), trace.constants(error.args))) from None
    elif isinstance(owner, Dict):
        trace.changing(owner)
        store(trace, owner, key, value)
    elif isinstance(owner, New | Obj):
        trace.call_value(trace.get_attribute(owner, "__setitem__"), [key, value], {})
    else:
        raise Unsupported(f"an item of a {describe(owner)} is set")


def delete_item(trace: Trace, owner: Value, key: Value) -> None:
    """``del owner[key]``."""
    owner, key = trace.force(owner), trace.force(key)
    if isinstance(owner, Seq) and not issubclass(owner.kind, tuple):
        trace.changing(owner)
        where = as_python(trace, key)
        try:
            del owner.items[where]
        except (IndexError, TypeError) as error:
            raise Raised(Error(type(error), trace.constants(error.args))) from None
    elif isinstance(owner, Dict):
        python = as_key(trace, key)
        trace.changing(owner)
        if python not in owner.items:
            raise Raised(Error(KeyError, [key]))
        del owner.items[python]
    else:
        raise Unsupported(f"an item of a {describe(owner)} is deleted")
