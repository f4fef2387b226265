"""Dicts and sets: order, views, changes, captured, against eager."""

import collections

import pytest

from tests.capture.bytecode.behaviours import Behaviours, X

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour
make = BEHAVIOURS.make


@behaviour((X, {"a": 1}))
def dict_views_are_live(x, given):
    keys, values, items = given.keys(), given.values(), given.items()
    given["b"] = x + 1
    return list(keys), list(values), list(items), len(keys), "b" in keys, given


@behaviour((X, {"a": 1, "b": 2}), breaks=None)
def dict_changes_size_while_iterated(x, given):
    y = x + 1
    for key in given:
        given[key + "x"] = y
    return y


@behaviour((X, {"a": 1, "b": 2}), breaks=None)
def values_change_after_a_break_in_the_loop(x, given):
    seen = []
    for value in given.values():
        seen.append(value)
        print("", end="")
        given["b"] = x + 5
    return seen


@behaviour((X,))
def sets_of_strings_have_their_order(x):
    made = {"zeta", "alpha", "m", "q", "beta"}
    made.add("omega")
    made.discard("m")
    return (
        x + 1,
        list(made),
        [s for s in made],
        list(made | {"new", "x"}),
        list(made - {"q"}),
        list({"b", "a"} ^ {"a", "c"}),
        list(made & {"zeta", "beta", "q"}),
    )


@behaviour((X, {"zeta", "alpha", "m"}))
def argument_sets_have_their_order(x, given):
    before = list(given)
    return x, before, sorted(given), "m" in given


@behaviour((X, {"zeta", "alpha", "m"}), breaks=None)
def argument_sets_change(x, given):
    given.add("new")
    given.remove("m")
    return x + 1, list(given), given


@behaviour((X,), breaks=None)
def counters(x):
    c = collections.Counter("abca")
    c["z"] += 2
    return x * c["a"], c.most_common(1), dict(c)


@behaviour((X,), breaks=None)
def dict_methods(x):
    d = dict(a=1, b=x)
    d |= {"c": 3}
    e = d | {"a": 5}
    first = next(iter(d))
    popped = d.popitem()
    d.setdefault("l", []).append(x)
    return (
        d,
        e,
        first,
        popped,
        dict.fromkeys("ab", 0),
        {k: v for k, v in e.items() if k != "b"},
        list(reversed(e)),
    )


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
