"""What the symbolic interpreter knows of built-in functions, and of functions that are not to be looked into."""

from __future__ import annotations

import builtins
import copy
import functools
import importlib.metadata
import importlib.util
import inspect
import itertools
import math
import operator
import re
import typing
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from longhand.capture import torch_private
from longhand.capture.bytecode import attributes
from longhand.capture.bytecode.breaks import Raised, Unsupported
from longhand.capture.bytecode.kinds import is_instance, type_of
from longhand.capture.bytecode.operators import (
    as_python,
    binary,
    compare,
    contains,
    delete_item,
    describe,
    from_python,
    get_item,
    is_same,
    kind_of,
    set_item,
    truth,
)
from longhand.capture.bytecode.tensors import has_tensor, operate, tensor_method
from longhand.capture.bytecode.trace import DELETED, Trace
from longhand.capture.bytecode.values import (
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
    Sym,
    Tensor,
    Value,
)

__all__ = ["RULES", "is_pure"]

Rule = Callable[[Trace, list[Value], dict[str, Value]], Value]
RULES: dict[Any, Rule] = {}
_PURE: set[Any] = {
    *(f for name, f in vars(math).items() if callable(f)),
    re.sub, re.compile, re.match, re.search, re.split, re.findall, re.fullmatch, re.escape,
    importlib.metadata.version, importlib.metadata.distribution, importlib.util.find_spec,
    abs, divmod, pow, round, repr, ord, chr, format, hash, bin, hex, oct, ascii,
    inspect.signature, torch.promote_types, torch.result_type, torch.can_cast,
    torch.cuda.is_available, torch.cuda.device_count, torch.backends.mps.is_available,
    typing.get_origin, typing.get_args, operator.index, inspect.isfunction, inspect.ismethod, inspect.isclass,
    torch.is_autocast_enabled, torch.get_default_dtype, torch.are_deterministic_algorithms_enabled,
    torch.is_inference_mode_enabled, torch.get_autocast_dtype, torch.is_storage,
    torch.is_anomaly_enabled, torch.overrides.is_tensor_like,
}  # fmt: skip


def is_pure(function: Any) -> bool:
    """Whether it depends on nothing but its arguments (and the state that every entry is guarded on)."""
    try:
        return function in _PURE
    except TypeError:
        return False


def _rule(*targets: Any) -> Callable[[Any], Any]:
    def register(rule: Any) -> Any:
        for target in targets:
            RULES[target] = rule
        return rule

    return register


# Types and attributes


@_rule(isinstance)
def _isinstance(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Const(is_instance(trace.force(args[0]), as_python(trace, args[1])))


@_rule(issubclass)
def _issubclass(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Const(issubclass(as_python(trace, args[0]), as_python(trace, args[1])))


@_rule(getattr)
def _getattr(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    name = as_python(trace, args[1])
    if len(args) == 3 and not attributes.has(trace, args[0], name):
        return args[2]
    return attributes.get(trace, args[0], name)


@_rule(hasattr)
def _hasattr(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Const(attributes.has(trace, args[0], as_python(trace, args[1])))


@_rule(setattr)
def _setattr(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    attributes.put(trace, args[0], as_python(trace, args[1]), args[2])
    return Const(None)


@_rule(delattr)
def _delattr(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    attributes.put(trace, args[0], as_python(trace, args[1]), DELETED)
    return Const(None)


@_rule(vars)
def _vars(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if not args:
        raise Unsupported("vars() of a frame")
    return attributes.get(trace, args[0], "__dict__")


@_rule(callable)
def _callable(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = trace.force(args[0])
    if isinstance(value, Const | Obj):
        return Const(callable(value.value))
    if isinstance(value, New):
        return Const(attributes.has(trace, value, "__call__"))
    return Const(any("__call__" in vars(base) for base in type_of(value).__mro__))


@_rule(id)
def _id(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = trace.force(args[0])
    if isinstance(value, Obj) and value.source is not None:
        trace.guards.same_object(value.source, value.value)
        return Const(id(value.value))
    raise Unsupported("id() of a value")


# Numbers


@_rule(len, operator.length_hint)
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
        and not attributes.is_python(kind_of(value), "__len__")
    ):
        return _len(trace, [value.storage], {})
    if isinstance(value, New | Obj):
        return trace.call_value(attributes.get(trace, value, "__len__"), [], {})
    return Const(len(as_python(trace, value)))


def _extreme(function: Any) -> Rule:
    symbol = "<" if function is min else ">"

    def rule(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
        values = trace.all_items(args[0]) if len(args) == 1 else [trace.force(a) for a in args]
        if "key" in kwargs or not values:
            if not values and "default" in kwargs:
                return kwargs["default"]
            raise Unsupported(f"{function.__name__}() with a key, or of nothing")
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


RULES[min] = _extreme(min)
RULES[max] = _extreme(max)


@_rule(sum)
def _sum(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    total = args[1] if len(args) > 1 else kwargs.get("start", Const(0))
    for value in trace.all_items(args[0]):
        total = binary(trace, "+", total, value)
    return total


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


@_rule(math.prod)
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
        return _folded(trace, function, args, kwargs)

    return rule


def _folded(trace: Trace, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    given = [as_python(trace, value) for value in args]
    named = {key: as_python(trace, value) for key, value in kwargs.items()}
    try:
        return from_python(function(*given, **named))
    except Exception as error:
        raise Raised(Error(type(error), [from_python(part) for part in error.args])) from None


_function: Any
for _function in (abs, operator.neg, operator.pos, operator.invert):
    RULES[_function] = _on_symbols(_function)


# Iterators


@_rule(iter)
def _iter(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) != 1:
        raise Unsupported("iter() with a sentinel")
    return trace.iterate(args[0])


@_rule(next)
def _next(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    iterator = trace.force(args[0])
    value = trace.advance(iterator)
    if value is not None:
        return value
    if len(args) == 2:
        return args[1]
    frame = iterator.frame if isinstance(iterator, Iter) else None
    returned = frame.returned if frame is not None and frame.finished else Const(None)
    is_none = isinstance(returned, Const) and returned.value is None
    raise Raised(Error(StopIteration, [] if is_none else [returned]))


def _pull(trace: Trace, iterator: Value) -> Iterator[Value]:
    while (value := trace.advance(iterator)) is not None:
        yield value


@_rule(enumerate)
def _enumerate(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    start = as_python(trace, args[1] if len(args) > 1 else kwargs.get("start", Const(0)))
    values = _pull(trace, trace.iterate(args[0]))
    return Iter(Seq(tuple, [Const(i), value]) for i, value in enumerate(values, start))


@_rule(zip)
def _zip(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    strict = truth(trace, kwargs.get("strict", Const(False)))
    if strict:
        lists = [trace.all_items(value) for value in args]
        if len({len(values) for values in lists}) > 1:
            raise Unsupported("zip(strict=True) of different lengths")
        return Iter(Seq(tuple, list(values)) for values in zip(*lists, strict=True))
    iterators = [_pull(trace, trace.iterate(value)) for value in args]
    return Iter(Seq(tuple, list(values)) for values in zip(*iterators, strict=False))


@_rule(map)
def _map(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    iterators = [_pull(trace, trace.iterate(value)) for value in args[1:]]
    return Iter(trace.call_value(args[0], list(values), {}) for values in zip(*iterators, strict=False))


@_rule(filter)
def _filter(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    test = trace.force(args[0])
    values = _pull(trace, trace.iterate(args[1]))
    if isinstance(test, Const) and test.value is None:
        return Iter(value for value in values if truth(trace, value))
    return Iter(value for value in values if truth(trace, trace.call_value(test, [value], {})))


@_rule(reversed)
def _reversed(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = trace.force(args[0])
    if isinstance(value, New | Obj) and attributes.has(trace, value, "__reversed__"):
        return trace.call_value(attributes.get(trace, value, "__reversed__"), [], {})
    return Iter(iter(trace.all_items(value)[::-1]))


@_rule(sorted)
def _sorted(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    values = trace.all_items(args[0])
    key = trace.force(kwargs.get("key", Const(None)))
    keys = (
        values
        if isinstance(key, Const) and key.value is None
        else [trace.call_value(key, [value], {}) for value in values]
    )
    plain = [as_python(trace, k) for k in keys]
    reverse = truth(trace, kwargs.get("reverse", Const(False)))
    try:
        order = sorted(range(len(values)), key=plain.__getitem__, reverse=reverse)
    except TypeError as error:
        raise Raised(Error(TypeError, trace.constants(error.args))) from None
    return Seq(list, [values[i] for i in order])


@_rule(functools.reduce)
def _reduce(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    values = trace.all_items(args[1])
    if len(args) > 2:
        values = [args[2], *values]
    if not values:
        raise Unsupported("reduce() of nothing")
    total = values[0]
    for value in values[1:]:
        total = trace.call_value(args[0], [total, value], {})
    return total


@_rule(functools.partial)
def _partial(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Partial(args[0], args[1:], kwargs)


@_rule(itertools.chain)
def _chain(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Iter(value for part in args for value in _pull(trace, trace.iterate(part)))


@_rule(itertools.chain.from_iterable)
def _chain_from(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    parts = _pull(trace, trace.iterate(args[0]))
    return Iter(value for part in parts for value in _pull(trace, trace.iterate(part)))


@_rule(itertools.product)
def _product(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    repeat = as_python(trace, kwargs.get("repeat", Const(1)))
    lists = [trace.all_items(value) for value in args]
    return Iter(Seq(tuple, list(values)) for values in itertools.product(*lists, repeat=repeat))


def _over_items(function: Any) -> Rule:
    def rule(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
        numbers = [as_python(trace, value) for value in args[1:]]
        return Iter(Seq(tuple, list(values)) for values in function(trace.all_items(args[0]), *numbers))

    return rule


for _function in (itertools.combinations, itertools.permutations, itertools.pairwise):
    RULES[_function] = _over_items(_function)


@_rule(itertools.islice)
def _islice(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    numbers = [as_python(trace, value) for value in args[1:]]
    return Iter(itertools.islice(_pull(trace, trace.iterate(args[0])), *numbers))


@_rule(itertools.repeat)
def _repeat(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    times = [as_python(trace, value) for value in args[1:]]
    return Iter(itertools.repeat(args[0], *times))


@_rule(itertools.count)
def _count(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Iter(map(Const, itertools.count(*(as_python(trace, value) for value in args))))


# Operators as functions

for _symbol, _functions in {
    "+": (operator.add, operator.concat),
    "-": (operator.sub,),
    "*": (operator.mul,),
    "/": (operator.truediv,),
    "//": (operator.floordiv,),
    "%": (operator.mod,),
    "**": (operator.pow, pow),
    "@": (operator.matmul,),
    "&": (operator.and_,),
    "|": (operator.or_,),
    "^": (operator.xor,),
    "+=": (operator.iadd,),
    "*=": (operator.imul,),
}.items():

    def _binary_rule(
        trace: Trace, args: list[Value], kwargs: dict[str, Value], symbol: str = _symbol
    ) -> Value:
        if len(args) != 2 or kwargs:
            raise Unsupported("an operator's function with other than two arguments")
        return binary(trace, symbol, args[0], args[1])

    for _function in _functions:
        RULES[_function] = _binary_rule

for _symbol, _function in {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}.items():

    def _compare_rule(
        trace: Trace, args: list[Value], kwargs: dict[str, Value], symbol: str = _symbol
    ) -> Value:
        return compare(trace, symbol, args[0], args[1])

    RULES[_function] = _compare_rule

RULES[operator.getitem] = lambda trace, args, kwargs: get_item(trace, args[0], args[1])
RULES[operator.contains] = lambda trace, args, kwargs: Const(contains(trace, args[0], args[1]))
RULES[operator.truth] = lambda trace, args, kwargs: Const(truth(trace, args[0]))
RULES[operator.not_] = lambda trace, args, kwargs: Const(not truth(trace, args[0]))
RULES[operator.is_] = lambda trace, args, kwargs: Const(is_same(trace, args[0], args[1]))
RULES[operator.is_not] = lambda trace, args, kwargs: Const(not is_same(trace, args[0], args[1]))


@_rule(operator.setitem)
def _setitem(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    set_item(trace, args[0], args[1], args[2])
    return Const(None)


@_rule(operator.delitem)
def _delitem(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    delete_item(trace, args[0], args[1])
    return Const(None)


# torch


@_rule(torch.is_tensor)
def _is_tensor(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Const(isinstance(trace.force(args[0]), Tensor))


def _fact(test: Callable[[Any], bool]) -> Rule:
    def rule(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
        value = trace.force(args[0])
        if not isinstance(value, Tensor):
            raise Unsupported("a fact about a tensor is asked of something else")
        return Const(test(value.fake))

    return rule


RULES[torch.is_floating_point] = _fact(torch.is_floating_point)
RULES[torch.is_complex] = _fact(torch.is_complex)


@_rule(torch.is_grad_enabled)
def _is_grad_enabled(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Const(torch.is_grad_enabled())


@_rule(torch_private.set_grad_enabled)
def _set_grad_enabled(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    mode = as_python(trace, args[0])
    if mode != torch.is_grad_enabled():
        trace.call("call_function", torch_private.set_grad_enabled, (mode,), {})
        torch_private.set_grad_enabled(mode)
    return Const(None)


def _always(value: Any) -> Rule:
    return lambda trace, args, kwargs: Const(value)


RULES[torch.compiler.is_compiling] = _always(True)
RULES[torch.compiler.is_dynamo_compiling] = _always(True)
RULES[torch.compiler.is_exporting] = _always(False)
RULES[torch.jit.is_scripting] = _always(False)
RULES[torch.jit.is_tracing] = _always(False)
RULES[torch_private.is_scripting] = _always(False)
RULES[torch_private.get_tracing_state] = _always(None)
RULES[torch_private.log_api_usage_once] = _always(None)


@_rule(typing.cast)
def _cast(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return args[1]


@_rule(inspect.signature)
def _signature(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    function = trace.force(args[0])
    owner = None
    if isinstance(function, Method):
        owner, function = function.owner, trace.force(function.function)
    if not isinstance(function, Func) or function.real is None:
        raise Unsupported("the signature of something that is no plain function")
    found = inspect.signature(function.real)
    if owner is not None:
        found = found.replace(parameters=list(found.parameters.values())[1:])
    return Const(found)


@_rule(copy.copy)
def _copy(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = trace.force(args[0])
    if isinstance(value, Seq):
        return Seq(value.kind, list(value.items))
    if isinstance(value, Dict):
        trace.guard_keys(value)
        return Dict(value.kind, dict(value.items), factory=value.factory, keys=dict(value.keys))
    if isinstance(value, SetOf):
        return SetOf(value.kind, dict(value.items))
    if isinstance(value, Const | Range):
        return value
    raise Unsupported(f"copy() of a {describe(value)}")


@_rule(copy.deepcopy)
def _deepcopy(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) != 1 or kwargs:
        raise Unsupported("deepcopy() with a memo")
    return _deep(trace, trace.force(args[0]), {})


def _deep(trace: Trace, value: Value, memo: dict[Value, Value]) -> Value:
    value = trace.force(value)
    if value in memo:
        return memo[value]
    if isinstance(value, Const | Range | Func):
        return value
    if isinstance(value, Seq) and (value.kind in (list, tuple, torch.Size) or hasattr(value.kind, "_fields")):
        listed = Seq(value.kind, [])
        memo[value] = listed
        listed.items.extend(_deep(trace, part, memo) for part in value.items)
        return listed
    if isinstance(value, Dict):
        trace.guard_keys(value)
        mapped = Dict(value.kind, {}, factory=value.factory, keys=dict(value.keys))
        memo[value] = mapped
        mapped.items.update({key: _deep(trace, part, memo) for key, part in value.items.items()})
        return mapped
    if isinstance(value, SetOf):
        return SetOf(value.kind, dict(value.items))
    if isinstance(value, Obj) and not trace.attributes.get(value) and _copies_plainly(type(value.value)):
        held = attributes.get_plain(trace, value, "__dict__")
        assert isinstance(held, Dict)
        trace.guard_keys(held)
        made = New(type(value.value))
        memo[value] = made
        made.attributes.update({key: _deep(trace, part, memo) for key, part in held.items.items()})
        return made
    raise Unsupported(f"deepcopy() of a {describe(value)}")


def _copies_plainly(kind: type) -> bool:
    """Whether a deep copy is a new object with copied attributes and nothing else."""
    special = ("__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__copy__")
    names = [name for base in kind.__mro__[:-1] for name in vars(base)]
    plain = all(base.__flags__ & (1 << 9) for base in kind.__mro__[:-1])
    return plain and "__slots__" not in names and not any(name in names for name in special)


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
