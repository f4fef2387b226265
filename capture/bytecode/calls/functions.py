"""What the symbolic interpreter knows of built-in functions, and which functions it may run at once."""

from __future__ import annotations

import builtins
import importlib.metadata
import importlib.util
import inspect
import itertools
import math
import operator
import re
import typing
import warnings
from typing import Any

import torch

from longhand.capture import torch_private
from longhand.capture.bytecode.calls.rules import Rule, Rules
from longhand.capture.bytecode.calls.tensors import has_tensor, operate, tensor_method
from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.trace import DELETED, Trace
from longhand.capture.bytecode.values import attributes
from longhand.capture.bytecode.values.attribute_writes import put
from longhand.capture.bytecode.values.classes import MISSING
from longhand.capture.bytecode.values.constants import as_python, fold, fold_call
from longhand.capture.bytecode.values.kinds import is_instance, type_of
from longhand.capture.bytecode.values.operators import binary, compare, is_none, is_python, kind_of, truth
from longhand.capture.bytecode.values.tracked import (
    BoundMethod,
    Const,
    Dict,
    Func,
    New,
    Obj,
    Seq,
    SetOf,
    Sym,
    Tensor,
    Value,
)

__all__ = ["RULES", "is_pure"]

RULES = Rules()


_PURE: set[Any] = {
    *(f for name, f in vars(math).items() if callable(f)),
    re.sub, re.compile, re.match, re.search, re.split, re.findall, re.fullmatch, re.escape,
    importlib.metadata.version, importlib.metadata.distribution, importlib.util.find_spec,
    abs, divmod, pow, round, repr, ord, chr, format, hash, bin, hex, oct, ascii,
    inspect.signature, torch.promote_types, torch.result_type, torch.can_cast,
    torch.cuda.is_available, torch.cuda.device_count, torch.backends.mps.is_available,
    typing.get_origin, typing.get_args, operator.index, inspect.isfunction, inspect.ismethod, inspect.isclass,
    torch.get_default_dtype, torch.are_deterministic_algorithms_enabled,
    torch.is_inference_mode_enabled, torch.is_storage, *torch_private.FIXED_QUESTIONS,
    torch.is_anomaly_enabled,
}  # fmt: skip


def is_pure(function: Any) -> bool:
    """Whether it depends on nothing but its arguments (and the state that every entry is guarded on)."""
    try:
        return function in _PURE
    except TypeError:
        return False


# Types and attributes


@RULES.of(isinstance)
def _isinstance(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Const(is_instance(trace.force(args[0]), as_python(trace, args[1])))


@RULES.of(issubclass)
def _issubclass(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Const(issubclass(as_python(trace, args[0]), as_python(trace, args[1])))


@RULES.of(getattr)
def _getattr(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    name = as_python(trace, args[1])
    if len(args) < 3:
        return attributes.get(trace, args[0], name)
    attribute = attributes.find(trace, args[0], name)
    return args[2] if attribute is None else attribute


@RULES.of(hasattr)
def _hasattr(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Const(attributes.has(trace, args[0], as_python(trace, args[1])))


@RULES.of(setattr)
def _setattr(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    put(trace, args[0], as_python(trace, args[1]), args[2])
    return Const(None)


@RULES.of(delattr)
def _delattr(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    put(trace, args[0], as_python(trace, args[1]), DELETED)
    return Const(None)


@RULES.of(vars)
def _vars(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if not args:
        raise Unsupported("vars() of a frame")
    return attributes.get(trace, args[0], "__dict__")


@RULES.of(callable)
def _callable(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = trace.force(args[0])
    if isinstance(value, Const | Obj):
        return Const(callable(value.value))
    if isinstance(value, New):
        return Const(trace.classes.lookup(value.kind, "__call__") is not MISSING)
    return Const(any("__call__" in vars(base) for base in type_of(value).__mro__))


@RULES.of(id)
def _id(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = trace.force(args[0])
    if isinstance(value, Obj) and value.source is not None:
        trace.guards.same_object(value.source, value.value)
        return Const(id(value.value))
    raise Unsupported("id() of a value")


# Numbers


@RULES.of(len, operator.length_hint)
def _len(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = trace.force(args[0])
    if isinstance(value, Dict):
        trace.guard_keys(value)
        return Const(len(value.items))
    if isinstance(value, Seq | SetOf):
        return Const(len(value.items))
    if isinstance(value, Tensor):
        if not value.fake.dim():
            raise Unsupported("len() of a 0-d tensor")
        size = value.fake.shape[0]
        return (
            tensor_method(trace, "size", [value, Const(0)], {})
            if isinstance(size, torch.SymInt)
            else Const(size)
        )
    if (
        isinstance(value, New | Obj)
        and value.storage is not None
        and not is_python(trace, kind_of(value), "__len__")
    ):
        return _len(trace, [value.storage], {})
    if isinstance(value, New | Obj):
        return trace.call_value(attributes.get_special(trace, value, "__len__"), [], {})
    return fold(len, as_python(trace, value))


def _extreme(function: Any) -> Rule:
    symbol = "<" if function is min else ">"

    def rule(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
        values = trace.all_items(args[0]) if len(args) == 1 else [trace.force(a) for a in args]
        if not values:
            if "default" in kwargs:
                return kwargs["default"]
            raise Unsupported(f"{function.__name__}() of nothing")
        if "key" in kwargs and not is_none(trace, kwargs["key"]):
            return _extreme_by_key(trace, symbol, values, kwargs["key"])
        if any(isinstance(value, Sym) for value in values):
            together = torch.sym_min if function is min else torch.sym_max
            best = values[0]
            for value in values[1:]:
                best = operate(trace, together, [best, value])
            return best
        best = values[0]
        for value in values[1:]:
            if truth(trace, compare(trace, symbol, value, best)):
                best = value
        return best

    return rule


def _extreme_by_key(trace: Trace, symbol: str, values: list[Value], key: Value) -> Value:
    best, best_key = values[0], trace.call_value(key, [values[0]], {})
    for value in values[1:]:
        its_key = trace.call_value(key, [value], {})
        if truth(trace, compare(trace, symbol, its_key, best_key)):
            best, best_key = value, its_key
    return best


RULES[min] = _extreme(min)
RULES[max] = _extreme(max)


@RULES.of(sum)
def _sum(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    total = trace.force(args[1] if len(args) > 1 else kwargs.get("start", Const(0)))
    values = trace.all_items(args[0])
    # Python's own sum of its leading numbers: from 3.12 on it rounds floats once, at the end.
    numbers = list(itertools.takewhile(_is_number, [total, *values]))
    if numbers:
        total = fold(sum, [as_python(trace, value) for value in numbers[1:]], as_python(trace, total))
    for value in values[max(len(numbers) - 1, 0) :]:
        total = binary(trace, "+", total, value)
    return total


def _is_number(value: Value) -> bool:
    return isinstance(value, Const) and type(value.value) in (int, float, bool)


def _quantifier(stops_at: bool) -> Rule:
    def rule(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
        iterator = trace.iterate(args[0])
        while (value := trace.advance(iterator)) is not None:
            if truth(trace, value) == stops_at:
                return Const(stops_at)
        return Const(not stops_at)

    return rule


RULES[any] = _quantifier(True)
RULES[all] = _quantifier(False)


@RULES.of(math.prod)
def _prod(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    total: Value = kwargs.get("start", Const(1))
    for value in trace.all_items(args[0]):
        total = binary(trace, "*", total, value)
    return total


def _on_symbols(function: Any) -> Rule:
    def rule(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if has_tensor(trace, *args):
            if isinstance(trace.force(args[0]), Tensor) and function in (round,):
                raise Unsupported("round() of a tensor")
            return operate(trace, function, args)
        return fold_call(trace, function, args, kwargs)

    return rule


_function: Any
for _function in (abs, operator.neg, operator.pos, operator.invert):
    RULES[_function] = _on_symbols(_function)


@RULES.of(typing.cast)
def _cast(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return args[1]


@RULES.of(inspect.signature)
def _signature(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    function = trace.force(args[0])
    owner = None
    if isinstance(function, BoundMethod):
        owner, function = function.owner, trace.force(function.function)
    if not isinstance(function, Func) or function.real is None:
        raise Unsupported("the signature of something that is no plain function")
    signature = inspect.signature(function.real)
    if owner is not None:
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    return Const(signature)


for _function, _word in {
    print: "print() writes",
    input: "input() reads",
    open: "open() touches files",
    exec: "exec() runs",
    eval: "eval() runs",
    globals: "globals() is asked for",
    locals: "locals() is asked for",
    warnings.warn: "warnings.warn() writes",
    builtins.__import__: "a module is imported",
    builtins.breakpoint: "breakpoint() stops",
}.items():

    def _refuse(trace: Trace, args: list[Value], kwargs: dict[str, Value], word: str = _word) -> Value:
        raise Unsupported(word)

    RULES[_function] = _refuse
