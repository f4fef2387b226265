"""Branches, loops, matching, captured, against eager."""

import pytest

from tests.capture.bytecode.behaviours import Behaviours, X

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


@behaviour((X, 0), (X, 3), (X, 7))
def loops(x, n):
    for i in range(n):
        if i == 2:
            continue
        if i == 5:
            break
        x = x + i
    else:
        x = x * 100
    while n > 0:
        x = x - 1
        n -= 1
    return x


@behaviour((X,))
def chained_conditions(x):
    n = x.shape[0]
    return (x + 1) if 0 < n < 5 and (n != 2 or n == 7) else x - 1


@behaviour((X, 5), (X, 15))
def match_statement(x, n):
    match n:
        case 5:
            return x + 5
        case int():
            return x + 1
    return x


@behaviour((X,), breaks=None)
def match_structures(x):
    match {"a": 1, "b": [1, 2]}:
        case {"a": 1, "b": [first, *rest]}:
            return x + first, rest
    return x


@behaviour((X,), (-X - 5,), breaks=None)
def branch_on_data(x):
    y = x * 2 if x.sum() > 0 else x - 100
    return y.cos()


@behaviour((X,), breaks=None)
def while_on_data(x):
    n = 0
    while x.abs().sum() > 1:
        x = x / 2
        n += 1
    return x, n


@behaviour((X, 3))
def walrus_and_chains(x, n):
    if (m := n * 2) > 5:
        x = x + m
    a = b = [x]
    a.append(1)
    return b, a is b


@behaviour((X,))
def star_expressions(x):
    def count(*args, **kwargs):
        return len(args) + 10 * len(kwargs)

    return x + count(*[1, 2], *(3,), a=1, b=2), {"a": 1, "b": 2}, [*range(3)], (*"ab",)


@behaviour((X,), breaks=None)
def nested_unpacking_and_star(x):
    (a, *b), c = (1, 2, 3), x
    first, *_, last = [1, 2, 3, x]
    return a, b, c, first, last, [*b, *b], {**{"a": 1}, "a": 2}


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
