"""What the symbolic interpreter knows of the built-in iterators and of itertools."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

from longhand.capture.bytecode import attributes
from longhand.capture.bytecode.breaks import Raised, Unsupported
from longhand.capture.bytecode.constants import as_python
from longhand.capture.bytecode.operators import truth
from longhand.capture.bytecode.rules import Rule, Rules
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values import (
    Const,
    Error,
    Iter,
    New,
    Obj,
    Partial,
    Seq,
    Value,
)

__all__ = ["RULES"]

RULES = Rules()


@RULES.of(iter)
def _iter(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) != 1:
        raise Unsupported("iter() with a sentinel")
    return trace.iterate(args[0])


@RULES.of(next)
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


@RULES.of(enumerate)
def _enumerate(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    start = as_python(trace, args[1] if len(args) > 1 else kwargs.get("start", Const(0)))
    values = _pull(trace, trace.iterate(args[0]))
    return Iter(Seq(tuple, [Const(i), value]) for i, value in enumerate(values, start))


@RULES.of(zip)
def _zip(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    strict = truth(trace, kwargs.get("strict", Const(False)))
    if strict:
        lists = [trace.all_items(value) for value in args]
        if len({len(values) for values in lists}) > 1:
            raise Unsupported("zip(strict=True) of different lengths")
        return Iter(Seq(tuple, list(values)) for values in zip(*lists, strict=True))
    iterators = [_pull(trace, trace.iterate(value)) for value in args]
    return Iter(Seq(tuple, list(values)) for values in zip(*iterators, strict=False))


@RULES.of(map)
def _map(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    iterators = [_pull(trace, trace.iterate(value)) for value in args[1:]]
    return Iter(trace.call_value(args[0], list(values), {}) for values in zip(*iterators, strict=False))


@RULES.of(filter)
def _filter(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    test = trace.force(args[0])
    values = _pull(trace, trace.iterate(args[1]))
    if isinstance(test, Const) and test.value is None:
        return Iter(value for value in values if truth(trace, value))
    return Iter(value for value in values if truth(trace, trace.call_value(test, [value], {})))


@RULES.of(reversed)
def _reversed(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = trace.force(args[0])
    if isinstance(value, New | Obj) and attributes.has(trace, value, "__reversed__"):
        return trace.call_value(attributes.get(trace, value, "__reversed__"), [], {})
    return Iter(iter(trace.all_items(value)[::-1]))


@RULES.of(sorted)
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


@RULES.of(functools.reduce)
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


@RULES.of(functools.partial)
def _partial(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Partial(args[0], args[1:], kwargs)


@RULES.of(itertools.chain)
def _chain(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Iter(value for part in args for value in _pull(trace, trace.iterate(part)))


@RULES.of(itertools.chain.from_iterable)
def _chain_from(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    parts = _pull(trace, trace.iterate(args[0]))
    return Iter(value for part in parts for value in _pull(trace, trace.iterate(part)))


@RULES.of(itertools.product)
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


@RULES.of(itertools.islice)
def _islice(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    numbers = [as_python(trace, value) for value in args[1:]]
    return Iter(itertools.islice(_pull(trace, trace.iterate(args[0])), *numbers))


@RULES.of(itertools.repeat)
def _repeat(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    times = [as_python(trace, value) for value in args[1:]]
    return Iter(itertools.repeat(args[0], *times))


@RULES.of(itertools.count)
def _count(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Iter(map(Const, itertools.count(*(as_python(trace, value) for value in args))))
