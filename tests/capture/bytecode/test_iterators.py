"""Iterators, generators, itertools, and what of them is alive at a break, captured, against eager."""

import itertools
import operator

import pytest

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


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
