"""What the symbolic interpreter knows of the built-in iterators and of itertools."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

from longhand.capture.bytecode.calls.rules import Rule, Rules
from longhand.capture.bytecode.entry.breaks import Raised, Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values import attributes
from longhand.capture.bytecode.values.classes import MISSING
from longhand.capture.bytecode.values.constants import as_python
from longhand.capture.bytecode.values.operators import binary, compare, is_none, kind_of, truth
from longhand.capture.bytecode.values.tracked import (
    Const,
    DictView,
    Error,
    IntRange,
    Iter,
    New,
    Obj,
    PartialCall,
    Seq,
    Tensor,
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
    inner = trace.iterate(args[0])
    number = [start]

    def pull() -> Iterator[Value]:
        while (value := trace.advance(inner)) is not None:
            number[0] += 1
            yield Seq(tuple, [Const(number[0] - 1), value])

    return Iter(pull(), remake=lambda outcome: f"enumerate({outcome.expression(inner)}, {number[0]})")


@RULES.of(zip)
def _zip(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if truth(trace, kwargs.get("strict", Const(False))):
        lists = [trace.all_items(value) for value in args]
        if len({len(values) for values in lists}) > 1:
            raise Unsupported("zip(strict=True) of different lengths")
        return Iter(Seq(tuple, list(values)) for values in zip(*lists, strict=True))
    inner = [trace.iterate(value) for value in args]
    pulled = zip(*(_pull(trace, part) for part in inner), strict=False)
    return Iter(
        (Seq(tuple, list(values)) for values in pulled), remake=lambda outcome: _made("zip", outcome, inner)
    )


def _made(word: str, outcome: Any, parts: list[Value]) -> str:
    """The text of a lazy iterator over others."""
    return f"{word}({', '.join(outcome.expression(part) for part in parts)})"


@RULES.of(map)
def _map(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    inner = [trace.iterate(value) for value in args[1:]]
    pulled = zip(*(_pull(trace, part) for part in inner), strict=False)
    return Iter(
        (trace.call_value(args[0], list(values), {}) for values in pulled),
        remake=lambda outcome: _made("map", outcome, [args[0], *inner]),
    )


@RULES.of(filter)
def _filter(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    test, inner = trace.force(args[0]), trace.iterate(args[1])

    def is_kept(value: Value) -> bool:
        if isinstance(test, Const) and test.value is None:
            return truth(trace, value)
        return truth(trace, trace.call_value(test, [value], {}))

    kept = (value for value in _pull(trace, inner) if is_kept(value))
    return Iter(kept, remake=lambda outcome: _made("filter", outcome, [test, inner]))


@RULES.of(reversed)
def _reversed(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = trace.force(args[0])
    if isinstance(value, New | Obj):
        if trace.classes.lookup(kind_of(value), "__reversed__") is not MISSING:
            return trace.call_value(attributes.get_special(trace, value, "__reversed__"), [], {})
        length = as_python(trace, trace.call_value(Const(len), [value], {}))
        get_item = attributes.get_special(trace, value, "__getitem__")
        return Iter(trace.call_value(get_item, [Const(place)], {}) for place in range(length - 1, -1, -1))
    if isinstance(value, IntRange):
        return Iter(map(Const, reversed(value.value)), is_fixed=True)
    if not isinstance(value, Seq) or isinstance(value, DictView):
        return Iter(iter(trace.all_items(value)[::-1]))
    owner = value
    position = [len(owner.items) - 1]

    def pull() -> Iterator[Value]:
        while 0 <= position[0] < len(owner.items):
            position[0] -= 1
            yield trace.force(owner.items[position[0] + 1])
        position[0] = -1

    def remake(outcome: Any) -> str:
        if position[0] < 0:
            return "iter(())"
        name = outcome.skipping(f"reversed({outcome.expression(owner)})", 0)
        outcome.late.append(f"{name}.__setstate__({position[0]})")
        return name

    return Iter(pull(), remake=remake)


@RULES.of(sorted)
def _sorted(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    values = trace.all_items(args[0])
    key = trace.force(kwargs.get("key", Const(None)))
    keys = (
        values
        if isinstance(key, Const) and key.value is None
        else [trace.call_value(key, [value], {}) for value in values]
    )
    plain = [_comparable(trace, k) for k in keys]
    reverse = truth(trace, kwargs.get("reverse", Const(False)))
    try:
        order = sorted(range(len(values)), key=plain.__getitem__, reverse=reverse)
    except TypeError as error:
        raise Raised(Error(TypeError, trace.constants(error.args))) from None
    return Seq(list, [values[i] for i in order])


class _Undecided:
    """A value that Python does not know, in a key that may be decided before it is looked at."""

    def __eq__(self, other: object) -> bool:
        raise Unsupported("sorted() compares values of tensors")

    __lt__ = __eq__


def _comparable(trace: Trace, value: Value) -> Any:
    value = trace.force(value)
    if isinstance(value, Seq) and value.kind in (tuple, list):
        return value.kind(_comparable(trace, part) for part in value.items)
    return _Undecided() if isinstance(value, Tensor) else as_python(trace, value)


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
    return PartialCall(args[0], args[1:], kwargs)


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
    pairs = itertools.product(*lists, repeat=repeat)
    return Iter((Seq(tuple, list(values)) for values in pairs), is_fixed=True)


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


@RULES.of(itertools.zip_longest)
def _zip_longest(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    inner = [_pull(trace, trace.iterate(value)) for value in args]
    pulled = itertools.zip_longest(*inner, fillvalue=kwargs.get("fillvalue", Const(None)))
    return Iter(Seq(tuple, list(values)) for values in pulled)


@RULES.of(itertools.accumulate)
def _accumulate(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    function = args[1] if len(args) > 1 else kwargs.get("func", Const(None))
    is_sum = is_none(trace, function)

    def together(total: Value, value: Value) -> Value:
        return binary(trace, "+", total, value) if is_sum else trace.call_value(function, [total, value], {})

    values = _pull(trace, trace.iterate(args[0]))
    if is_none(trace, kwargs.get("initial", Const(None))):
        return Iter(itertools.accumulate(values, together))
    return Iter(itertools.accumulate(values, together, initial=kwargs["initial"]))


@RULES.of(itertools.starmap)
def _starmap(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    inner = trace.iterate(args[1])
    return Iter(trace.call_value(args[0], trace.all_items(value), {}) for value in _pull(trace, inner))


def _while(function: Any) -> Rule:
    def rule(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
        def test(value: Value) -> bool:
            is_plain = is_none(trace, args[0])
            return truth(trace, value if is_plain else trace.call_value(args[0], [value], {}))

        return Iter(function(test, _pull(trace, trace.iterate(args[1]))))

    return rule


for _test in (itertools.takewhile, itertools.dropwhile, itertools.filterfalse):
    RULES[_test] = _while(_test)


@RULES.of(itertools.groupby)
def _groupby(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    key = args[1] if len(args) > 1 else kwargs.get("key", Const(None))
    groups: list[tuple[Value, list[Value]]] = []
    for value in trace.all_items(args[0]):
        its_key = value if is_none(trace, key) else trace.call_value(key, [value], {})
        if not groups or not truth(trace, compare(trace, "==", groups[-1][0], its_key)):
            groups.append((its_key, []))
        groups[-1][1].append(value)
    return Iter(Seq(tuple, [one, trace.over_items(Seq(list, values))]) for one, values in groups)


@RULES.of(itertools.tee)
def _tee(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    n_copies = as_python(trace, args[1]) if len(args) > 1 else 2
    copies = itertools.tee(_pull(trace, trace.iterate(args[0])), n_copies)
    return Seq(tuple, [Iter(one) for one in copies])


@RULES.of(itertools.cycle)
def _cycle(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Iter(itertools.cycle(_pull(trace, trace.iterate(args[0]))))


@RULES.of(itertools.compress)
def _compress(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    pairs = zip(trace.all_items(args[0]), trace.all_items(args[1]), strict=False)
    return Iter(value for value, is_kept in pairs if truth(trace, is_kept))


@RULES.of(itertools.repeat)
def _repeat(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    times = [as_python(trace, value) for value in args[1:]]
    return Iter(itertools.repeat(args[0], *times))


@RULES.of(itertools.count)
def _count(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    numbers = [as_python(trace, value) for value in args]
    start = numbers[0] if numbers else 0
    step = numbers[1] if len(numbers) > 1 else 1
    n_given = [0]

    def pull() -> Iterator[Value]:
        for number in itertools.count(start, step):
            n_given[0] += 1
            yield Const(number)

    def remake(outcome: Any) -> str:
        return f"{outcome.constant(itertools.count)}({start + n_given[0] * step}, {step})"

    return Iter(pull(), remake=remake if isinstance(start, int) and isinstance(step, int) else None)
