"""Operators, truth, comparison and identity of tracked values."""

from __future__ import annotations

import operator
import os
import types
from collections.abc import Callable
from typing import Any

import torch

from longhand.capture.bytecode.calls.tensors import has_tensor, operate
from longhand.capture.bytecode.containers.sets import combined, made_of
from longhand.capture.bytecode.entry.breaks import NeedsData, Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.classes import MISSING
from longhand.capture.bytecode.values.constants import as_key, as_python, describe, fold, hold_if_nan
from longhand.capture.bytecode.values.tracked import (
    Array,
    Bound,
    BoundMethod,
    Cell,
    Const,
    Dict,
    DictView,
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
    Value,
)
from longhand.capture.bytecode.versions.opcodes import Opcode

__all__ = [
    "BINARY_NAMES",
    "binary",
    "compare",
    "contains",
    "is_found",
    "is_none",
    "is_python",
    "is_same",
    "kind_of",
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
_UNARY: dict[str, tuple[Callable[..., Any], str]] = {
    Opcode.UNARY_NEGATIVE: (operator.neg, "__neg__"),
    Opcode.UNARY_INVERT: (operator.invert, "__invert__"),
    Opcode.UNARY_POSITIVE: (operator.pos, "__pos__"),
}


def _hint(trace: Trace) -> str:
    """What to do about a branch on a tensor's values."""
    if trace.stack and f"{os.sep}torch{os.sep}distributions{os.sep}" in trace.stack[-1].place()[0]:
        return (
            "torch.distributions checks its arguments: pass validate_args=False, or call "
            "torch.distributions.Distribution.set_default_validate_args(False)."
        )
    return "Use torch.where, or compute the condition outside."


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
    if isinstance(value, IntRange):
        return bool(value.value)
    if isinstance(value, Array):
        return truth(trace, fold(bool, value.value))
    if isinstance(value, Sym):
        return bool(value.fake)
    if isinstance(value, Tensor):
        if (number := trace.values.number(value.fake)) is not None:
            return bool(number)
        raise NeedsData("a branch depends on a tensor's values", _hint(trace))
    if isinstance(value, Func | BoundMethod | Bound | PartialCall | Cell | Iter | Slice | Error):
        return True
    if isinstance(value, New | Obj):
        kind = kind_of(value)
        if value.storage is not None and not (
            is_python(trace, kind, "__bool__") or is_python(trace, kind, "__len__")
        ):
            return truth(trace, value.storage)
        for name in ("__bool__", "__len__"):
            if trace.classes.lookup(kind, name) is not MISSING:
                return truth(trace, trace.call_value(trace.get_special(value, name), [], {}))
        return True
    raise Unsupported(f"the truth of a {describe(value)}")


def kind_of(value: New | Obj) -> type:
    """The class of an instance."""
    return value.kind if isinstance(value, New) else type(value.value)


def is_python(trace: Trace, kind: type, name: str) -> bool:
    """Whether a class gives `name` its own meaning, in Python."""
    return isinstance(trace.classes.lookup(kind, name), types.FunctionType)


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
        trace.guards.identity(left.source, right.source, is_same=False)
    if isinstance(left, BoundMethod | Bound) or isinstance(right, BoundMethod | Bound):
        raise Unsupported("the identity of bound methods is asked for")
    return False


def contains(trace: Trace, owner: Value, key: Value) -> bool:
    """``key in owner``."""
    owner, key = trace.force(owner), trace.force(key)
    if (
        isinstance(owner, New | Obj)
        and owner.storage is not None
        and not is_python(trace, kind_of(owner), "__contains__")
    ):
        owner = owner.storage
    if isinstance(owner, Dict):
        python = as_key(trace, key)
        trace.guard_key(owner, python)
        return python in owner.items
    if isinstance(owner, SetOf):
        return as_key(trace, key) in owner.items
    if isinstance(owner, Seq):
        return any(is_found(trace, trace.force(part), key) for part in owner.items)
    if isinstance(owner, IntRange | Const) and isinstance(key, Const):
        return operator.contains(owner.value, key.value)
    if isinstance(owner, New | Obj):
        method = trace.get_special(owner, "__contains__")
        return truth(trace, trace.call_value(method, [key], {}))
    raise Unsupported(f"`in` a {describe(owner)}")


def is_found(trace: Trace, part: Value, key: Value) -> bool:
    """``part is key or part == key``: how ``in``, index and remove look for something."""
    if part is key:
        return True
    if hold_if_nan(trace, part) and hold_if_nan(trace, key):
        return part.value is key.value  # type: ignore[attr-defined]
    return truth(trace, compare(trace, "==", part, key))


def unary(trace: Trace, name: str, value: Value) -> Value:
    value = trace.force(value)
    if name == Opcode.UNARY_NOT:
        return Const(not truth(trace, value))
    function, method = _UNARY[name]
    if isinstance(value, Tensor | Sym):
        return operate(trace, function, [value])
    if isinstance(value, New | Obj):
        return trace.call_value(trace.get_special(value, method), [], {})
    return fold(function, as_python(trace, value))


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
            trace.changing(sequence)
            sequence.items[:] = sequence.items * as_python(trace, times)
            return sequence
        kind = (
            tuple if issubclass(sequence.kind, tuple) and sequence.kind is not torch.Size else sequence.kind
        )
        return Seq(kind, sequence.items * as_python(trace, times))
    if isinstance(left, Seq) and left.kind is list and in_place and plain == "+":
        items = trace.all_items(right)
        trace.changing(left)
        left.items.extend(items)
        return left
    if isinstance(left, Dict) and isinstance(right, Dict) and plain == "|":
        trace.guard_keys(left)
        trace.guard_keys(right)
        if in_place:
            trace.changing(left)
            left.merge(right)
            return left
        if left.kind is not right.kind:
            raise Unsupported(f"a {left.kind.__qualname__} | a {right.kind.__qualname__}")
        made = Dict(left.kind, dict(left.items), factory=left.factory, keys=dict(left.keys))
        made.merge(right)
        return made
    if plain in ("&", "|", "-", "^") and (isinstance(left, DictView) or isinstance(right, DictView)):
        left, right = (_as_set(trace, side) for side in (left, right))
    if isinstance(left, SetOf) and isinstance(right, SetOf):
        return combined(trace, plain, left, right, in_place)
    if isinstance(left, New | Obj) or isinstance(right, New | Obj):
        return _user_binary(trace, plain, left, right, in_place)
    if isinstance(left, Array) and in_place:
        raise Unsupported("an array of numpy's is written to")
    return fold(_BINARY[plain], as_python(trace, left), as_python(trace, right))


def _as_set(trace: Trace, value: Value) -> SetOf:
    """What is in a view of a dict, or another iterable that stands beside one."""
    return value if isinstance(value, SetOf) else made_of(trace, set, trace.all_items(value))


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
    tries = [(left, f"__{word}__", right)]
    kinds = _class_of(left), _class_of(right)
    if kinds[0] is not kinds[1] or None in kinds:
        tries.append((right, f"__r{word}__", left))
        if _comes_first(trace, kinds[1], kinds[0], f"__r{word}__"):
            tries.reverse()
    if in_place:
        tries.insert(0, (left, f"__i{word}__", right))
    for owner, name, other in tries:
        kind = _class_of(owner)
        if kind is None or trace.classes.lookup(kind, name) is MISSING:
            continue
        result = trace.call_value(trace.get_special(owner, name), [other], {})
        if not (isinstance(result, Const) and result.value is NotImplemented):
            return result
    raise Unsupported(f"{describe(left)} {symbol} {describe(right)}")


def _class_of(value: Value) -> type | None:
    """The class of an instance; None for all else."""
    return kind_of(value) if isinstance(value, New | Obj) else None


def _comes_first(trace: Trace, kind: type | None, other: type | None, name: str) -> bool:
    """Whether a right side's method is asked before the left's: its class derives from the left's, and has its own."""
    if kind is None or other is None or kind is other or not issubclass(kind, other):
        return False
    return trace.classes.lookup(kind, name) is not trace.classes.lookup(other, name)


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
    tries = [(left, right, symbol), (right, left, _MIRRORED[symbol])]
    kinds = _class_of(left), _class_of(right)
    if None not in kinds and kinds[0] is not kinds[1] and issubclass(kinds[1], kinds[0]):  # type: ignore[arg-type]
        tries.reverse()
    for owner, other, name in tries:
        kind = _class_of(owner)
        if kind is None:
            continue
        method = f"__{_WORDS[name]}__"
        member = trace.classes.lookup(kind, method)
        is_inverted = member is object.__ne__  # which asks __eq__
        if is_inverted:
            method = "__eq__"
            member = trace.classes.lookup(kind, method)
        if isinstance(member, types.FunctionType):
            result = trace.call_value(trace.get_special(owner, method), [other], {})
            if not (isinstance(result, Const) and result.value is NotImplemented):
                return Const(not truth(trace, result)) if is_inverted else result
        elif member is not object.__eq__:
            raise Unsupported(f"a {describe(owner)} is compared")
    if symbol in ("==", "!=") and (_has_identity(left) or _has_identity(right)):
        return Const(is_same(trace, left, right) == (symbol == "=="))
    return fold(_COMPARE[symbol], as_python(trace, left), as_python(trace, right))


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
