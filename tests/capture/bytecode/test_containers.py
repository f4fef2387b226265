"""Lists, dicts, sets, tuples, iterators, captured, against eager."""

import collections
import functools
import itertools
import operator
import typing

import pytest
import torch

from tests.capture.bytecode.behaviours import Behaviours, X, Y

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


@behaviour((X, [1, 2]))
def lists(x, given):
    made = [x, 1]
    made.append(2)
    made.extend(given)
    made.insert(0, "first")
    last = made.pop()
    made[1] = x + 1
    made += [7]
    del made[0]
    return (
        made,
        last,
        made[1:],
        len(made),
        7 in made[2:],
        made[2:].index(7),
        made[::-1],
        [*made, *given],
        given * 2,
        [*given, 1],
    )


@behaviour((X, [1, 2]))
def argument_list_is_changed(x, given):
    given.append(x + 1)
    given[0] = 5
    given.reverse()
    return given


@behaviour((X, [3, 1, 2]))
def argument_list_is_sorted(x, given):
    given.sort()
    return x + given[0], sorted(given, reverse=True), sorted(["bb", "a"], key=len)


@behaviour((X, [1, [2, 3]]))
def nested_list_is_changed(x, given):
    given[1].append(x * 2)
    given.append(given[1])
    return x + 1


@behaviour(({"a b": X, "a_b": Y, "a-b": X + Y},), breaks=0)
def tensors_whose_keys_read_alike(given):
    return given["a b"] * 2 + given["a-b"] - given["a_b"]


@behaviour((X, {"a": 1}))
def dicts(x, given):
    made = {"x": x, **given}
    made["b"] = 2
    made.setdefault("c", 3)
    made.update(d=4)
    popped = made.pop("a")
    keys = list(made)
    total = sum(v for k, v in made.items() if k != "x")
    return (
        made,
        popped,
        keys,
        total,
        made.get("zz"),
        made.get("zz", 1),
        "b" in made,
        len(made),
        list(made.values()),
    )


@behaviour((X, {"a": 1}), (X, {"a": 2}), (X, {"b": 1}))
def argument_dict_is_changed(x, given):
    given["new"] = x + len(given)
    if "a" in given:
        del given["a"]
    return x.sum()


@behaviour((X, {"a": X, "b": (Y, 2)}))
def nested_arguments(x, given):
    y, n = given["b"]
    return {"sum": given["a"] + y, "parts": [y * n, (x,)]}


@behaviour((X,))
def dict_order(x):
    made = {}
    for key in ("z", "a", "m"):
        made[key] = x * len(made)
    made["z"] = made.pop("z")
    return made, dict(reversed(list(made.items()))), dict(zip("ab", (x, 1), strict=False))


@behaviour((X,))
def dict_comprehensions(x):
    return (
        {i: x + i for i in range(3)},
        {str(i) for i in range(1)},
        {k.upper(): v for k, v in {"a": 1}.items()},
    )


@behaviour((X, {1, 2}))
def sets(x, given):
    made = {1, 2, 3} | {4}
    made.add(5)
    made.discard(1)
    given.add(9)
    return (
        x + len(made),
        3 in made,
        made & {3, 9},
        made - {3},
        sorted(made),
        frozenset([1]),
        made == {2, 3, 4, 5},
    )


@behaviour((X,))
def ordered_and_default_dicts(x):
    ordered = collections.OrderedDict(a=x, b=1)
    ordered.move_to_end("a")
    groups = collections.defaultdict(list)
    groups["p"].append(x + 1)
    groups["q"].append(2)
    return ordered, dict(groups), groups


@behaviour((X, collections.OrderedDict(a=1)))
def ordered_dict_argument(x, given):
    given["b"] = x
    return given


@behaviour((X, collections.deque([1, 2])))
def deques(x, given):
    given.append(x)
    given.appendleft(0)
    return given.popleft(), given.pop() + 1, len(given)


Point = collections.namedtuple("Point", "x y")


class Pair(typing.NamedTuple):
    left: torch.Tensor
    right: int = 3

    def total(self):
        return self.left + self.right


@behaviour((X, Point(1, 2)))
def named_tuples(x, given):
    made = Point(x, y=2)
    _a, b = made
    return (
        made,
        made.x + b,
        given.x + x,
        made._replace(y=5),
        given[1],
        Pair(x),
        Pair(x).total(),
        isinstance(made, tuple),
    )


@behaviour((X,))
def tuples_and_slices(x):
    t = (1, 2, 3, 4)
    s = slice(1, 3)
    return t[s], t[-1], (*t, x), t * 2, t.index(3), x[s], (1, *t[:0]), (*t, x), s


@behaviour((X,))
def ranges(x):
    r = range(1, 10, 3)
    return x + r[1], len(r), list(r), 4 in r, r[::-1], list(reversed(r))


@behaviour((X,))
def unpacking(x):
    a, (b, *c), d = 1, (2, 3, 4), x
    a, b = b, a
    return a, b, c, d + 1


@behaviour((X,))
def comprehensions(x):
    n = 3
    return (
        [x + i * n for i in range(3) if i % 2 == 0],
        [[i + j for j in range(2)] for i in range(2)],
        sum(x[i, 0] for i in range(3)),
    )


@behaviour((X,))
def iterators(x):
    it = iter([1, 2, 3])
    first = next(it)
    rest = list(it)
    return (
        x + first,
        rest,
        next(it, "end"),
        list(enumerate("ab", 1)),
        list(zip([1, 2], "ab", strict=False)),
        list(map(str, [1, 2])),
    )


@behaviour((X,))
def more_iterators(x):
    return (
        x + sum(filter(None, [0, 1, 2])),
        list(itertools.chain([1], [2])),
        list(itertools.product([1, 2], [3])),
        list(itertools.islice(itertools.count(5), 3)),
        functools.reduce(operator.add, [x, x, 1]),
        list(itertools.combinations([1, 2, 3], 2)),
        all([1, 1]),
        any([0, 0]),
        list(reversed([1, 2])),
    )


@behaviour((X, [1, 2, 3]))
def list_grows_while_iterated(x, given):
    for i in given:
        if len(given) < 6:
            given.append(i + 10)
        x = x + i
    return x


@behaviour((X,))
def list_slices_are_assigned(x):
    a = [1, 2, 3, 4]
    a[1:3] = [x, 5, 6]
    a[::2] = [0] * len(a[::2])
    del a[1:2]
    b = [1, 2]
    b *= 2
    b += (3, 4)
    b[len(b) :] = [9]
    return a, b


@behaviour((X, [1, 2, 3]))
def argument_list_slices(x, given):
    given[1:] = [x]
    given += (5,)
    given *= 2
    return x + len(given)


@behaviour((X,), breaks=None)
def bounded_deques(x):
    d = collections.deque([1, 2], maxlen=2)
    d.append(x)
    d.rotate(1)
    return d, d.maxlen, list(d)


@behaviour((X, collections.deque([1, 2], maxlen=2)), breaks=None)
def bounded_deque_argument(x, d):
    d.append(x)
    return list(d), d


@behaviour((X,), breaks=None)
def sequence_comparisons(x):
    return (
        [1, 2] < [1, 3],
        (1,) == (1,),
        [1] == (1,),
        {"a": 1} == {"a": 1},
        {1} == {1},
        x + 1,
        (1, "a") != (1, "b"),
    )


@behaviour((X,), breaks=None)
def tuples_of_tensors_compare(x):
    t = (x, 1)
    return t == (x, 1), t == (x, 2), [x] != [x], x in [x]


@behaviour((X, [3, 1, 2], {"b": 1, "a": 2}), breaks=None)
def sorting(x, given, d):
    return (
        x,
        sorted(given),
        sorted(d),
        sorted(d.items(), key=lambda kv: kv[1]),
        sorted(given, key=lambda v: -v),
        sorted("bca", reverse=True),
        sorted([(1, "b"), (1, "a")]),
        sorted([True, False]),
    )


@behaviour((X, [3, 4], collections.deque([1, 2], maxlen=2)), breaks=None)
def bounded_deques_from_outside(x, items, given):
    kept = collections.deque([1, 2], maxlen=2)
    kept.extend(items)
    given.append(5)
    return x + kept[0], kept, kept.maxlen, given


@behaviour((X,), breaks=1)
def moving_what_is_not_there(x):
    ordered = collections.OrderedDict(a=1)
    try:
        ordered.move_to_end("b")
    except KeyError as error:
        return x + 1, error.args, list(ordered)


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
