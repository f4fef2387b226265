"""Iterators, generators, itertools, and what of them is alive at a break, captured, against eager."""

import collections.abc
import itertools
import operator

import pytest
import torch

from tests.capture.bytecode import running
from tests.capture.bytecode.behaviours import Behaviours, X

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour
make = BEHAVIOURS.make


@behaviour((X, [1, 2, 3]), breaks=None)
def list_changes_after_a_break_in_enumerate(x, given):
    seen = []
    for i, value in enumerate(given):
        seen.append(value)
        print("", end="")
        if i + 1 < len(given):
            given[i + 1] = x + i
    return seen


@behaviour((X, [1, 2, 3]), breaks=None)
def map_with_effects_and_breaks(x, given):
    log = []

    def effect(v):
        log.append(("f", v))
        return x * v

    for y in map(effect, given):
        print("", end="")
        log.append(("loop", y.sum()))
    return log


@behaviour((X, [1, 2, 3], [4, 5, 6]), breaks=None)
def zip_and_reversed_with_breaks(x, a, b):
    seen = []
    for p, q in zip(a, b, strict=False):
        print("", end="")
        b[2] = 100
        seen.append((p, q))
    for r in reversed(a):
        print("", end="")
        a[0] = 7
        seen.append(x + r)
    return seen


@behaviour((X,), breaks=None)
def itertools_more(x):
    return (
        x,
        list(itertools.accumulate([1, 2, 3])),
        list(itertools.accumulate([1, 2, 3], operator.mul)),
        list(itertools.zip_longest([1, 2], [3], fillvalue=0)),
        list(itertools.starmap(pow, [(2, 3), (3, 2)])),
        list(itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1])),
        list(itertools.dropwhile(lambda v: v < 3, [1, 2, 3, 1])),
        [(k, list(g)) for k, g in itertools.groupby("aabbb")],
        list(itertools.islice(itertools.cycle([1, 2]), 5)),
        list(itertools.compress("abc", [1, 0, 1])),
        list(itertools.permutations([1, 2])),
        list(itertools.pairwise([1, 2, 3])),
        list(itertools.filterfalse(lambda v: v, [0, 1])),
        list(itertools.combinations_with_replacement([1, 2], 2)),
    )


@behaviour((X,), breaks=None)
def accumulate_tensors(x):
    return list(itertools.accumulate([x, x + 1, x * 2]))


LAYERS = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh(), torch.nn.Sigmoid())


def _noted(x, log, word):
    log.append(word)
    print("", end="")
    return x + 1


@behaviour((X,), breaks=None)
def loops_that_break_once(x):
    log = []
    for layer in LAYERS:
        x = layer(x) if log else layer(_noted(x, log, "a"))
    for number, layer in enumerate(LAYERS, 2):
        x = layer(x) * number if len(log) > 1 else layer(_noted(x, log, number))
    for (key, layer), other in zip(LAYERS._modules.items(), (1, 2, 3)):
        x = layer(x) * other if len(log) > 2 else layer(_noted(x, log, key))
    return x, log


def _given_iterators(x, numbered, values, pairs):
    place, first = next(numbered)
    return x * first + place, next(values), list(pairs)


def test_given_iterators_are_advanced(hook):
    captured = running.Captured(_given_iterators)
    for start in (0, 0, 3):
        one, other = (
            (
                enumerate([5, 6, 7], start),
                iter({"a": 1, "b": 2}.values()),
                zip([1, 2], "ab"),
            )
            for _ in range(2)
        )
        mine, theirs = captured(X, *one), _given_iterators(X, *other)
        running.assert_same(mine, theirs)
        assert [list(part) for part in one] == [list(part) for part in other]
    assert captured.count("break") == 0 and captured.count("skip") == 0
    assert captured.count("graph") == 2


@behaviour((X,), breaks=None)
def generator_across_break(x):
    def numbers():
        for i in range(3):
            yield x + i

    g = numbers()
    a = next(g)
    print("", end="")
    return a, list(g)


@behaviour((X,), breaks=None)
def generator_send_and_throw(x):
    def echo():
        got = yield 0
        while True:
            try:
                got = yield got
            except ValueError as error:
                got = yield str(error)

    g = echo()
    next(g)
    a = g.send(x + 1)
    b = g.send(5)
    c = g.throw(ValueError("t"))
    g.close()
    return a, b, c


@behaviour((X,), breaks=None)
def generator_return_value(x):
    def inner():
        yield 1
        return x * 2

    def outer():
        result = yield from inner()
        yield result

    g = inner()
    next(g)
    try:
        next(g)
    except StopIteration as stop:
        value = stop.value
    return list(outer()), value


@behaviour((X,), breaks=None)
def generator_with_finally(x):
    log = []

    def g():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    for v in g():
        pass
    it = g()
    next(it)
    it.close()
    return log, x + v


@behaviour((X,), breaks=None)
def coroutine_is_run(x):
    async def double(y):
        return y * 2

    c = double(x)
    try:
        c.send(None)
    except StopIteration as stop:
        return stop.value + 1


class CountTo:
    def __init__(self, n):
        self.n = n
        self.at = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.at >= self.n:
            raise StopIteration
        self.at += 1
        return self.at


@behaviour((X, CountTo(3)))
def an_iterator_that_is_its_own_iterator(x, given):
    return sum(x * k for k in CountTo(2)), list(CountTo(3)), max(CountTo(2), default=0), list(given), given.at


def _noted(log):
    try:
        yield 1
    finally:
        log.append("closed")


def _refused(log):
    try:
        raise KeyError("k")
    finally:
        log.append("refused")


@behaviour((X, []), breaks=None)
def a_generator_left_open_ends_with_the_call(x, log):
    try:
        _refused(log)
    except KeyError:
        log.append("caught")
    kept = _noted(log)
    return x + next(kept), log


class Row(collections.abc.Sequence):
    """Its ``__iter__`` is a generator that waits inside a try block for IndexError."""

    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, key):
        return self.items[key]


@behaviour((X,))
def a_generator_left_open_that_closing_does_not_run(x):
    first = next(iter(Row(1, 2, 3)))
    return x + first, any(item > 1 for item in Row(1, 2, 3))


def _twice(items):
    yield from (2 * item for item in items)


@behaviour((X,))
def a_generator_left_open_that_delegates(x):
    return x + next(_twice([1, 2]))


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
