"""Python's corners: match, walrus, unpacking, numbers, strings, dicts, iterators, sorting, slices."""

import collections
import dataclasses
import enum
import itertools
import operator

import pytest
import torch

from tests.capture.bytecode.scenarios import Scenarios, tell

ALL = Scenarios()
X = torch.linspace(-2, 2, 6).reshape(2, 3)


@ALL.scenario
def walrus(run):
    def f(x, items):
        if (n := len(items)) > 2 and (last := items[-1]):
            x = x * n + last
        total = [y := i * 2 for i in items if (half := i // 2)]
        return x, n, total, locals().get("q", 1) if False else (y if items else None)

    g = run(f)
    return [tell(g, X, items) for items in ([1, 2, 3], [], [2], [0, 1, 4])]


@dataclasses.dataclass
class Point:
    a: int
    b: object = None


class Pair:
    __match_args__ = ("left", "right")

    def __init__(self, left, right):
        self.left, self.right = left, right


class Colour(enum.IntEnum):
    RED = 1
    BLUE = 2


@ALL.scenario
def match_statements(run):
    def f(x, v):
        match v:
            case Colour.RED:
                return x, "red"
            case True | False:
                return x, "bool"
            case int(n) if n > 5:
                return x * n, "large"
            case 0 | 1 | -1:
                return x, "small"
            case float() | complex():
                return x * v, "real"
            case "a" | "b" as word:
                return x, word
            case str():
                return x, "text"
            case []:
                return x, "empty"
            case [int(a)]:
                return x + a, "one"
            case [a, [b, *c], *rest]:
                return x + b, a, c, rest
            case (a, b, *_) if a == b:
                return x - a, "same"
            case {"k": k, "in": [one, *_], **rest}:
                return x * k + one, rest
            case {"k": None}:
                return x, "none"
            case Point(a=1, b=[first, *_]):
                return x + first, "point"
            case Point(a, Point(c)):
                return x + a + c, "points"
            case Pair(left, right=Pair(a, b)):
                return x + a * b, left
            case torch.Tensor():
                return x + v, "tensor"
            case None:
                return x, "nothing"
            case _:
                return x, "else"

    g = run(f)
    values = [
        Colour.RED,
        Colour.BLUE,
        True,
        7,
        1,
        0,
        4,
        2.5,
        1j,
        "a",
        "zz",
        b"a",
        [],
        (),
        [3],
        [1, [2, 3], 4],
        (1, (2,)),
        (2, 2, 3),
        (2, 3),
        range(2),
        {"k": 2, "in": [5, 6], "z": 1},
        {"k": None},
        {},
        collections.OrderedDict(k=2, **{"in": (1,)}),
        collections.defaultdict(list),
        Point(1, [4]),
        Point(2, Point(3)),
        Point(2),
        Pair(1, Pair(2, 3)),
        Pair(1, 2),
        X,
        None,
        collections.deque([1, 1]),
        {1},
        bytearray(b"aa"),
    ]
    return [tell(g, X, value) for value in values]


@ALL.scenario
def unpacking(run):
    def f(x, items):
        a, *b, c = items
        (d, e), *g = [(a, c), *b]
        return x * a + c, b, d, e, g

    g = run(f)
    return [
        tell(g, X, items) for items in ([1, 2], (1, 2, 3), [1], "ab", {1: 2, 3: 4}, range(4), {5: 6}.items())
    ]


@ALL.scenario
def chained_comparisons_and_short_circuits(run):
    def f(x, a, b):
        def note(v):
            log.append(v)
            return v

        y = note(1) < note(a) < note(b) < note(9)
        return x + y, note(a) and note(b) or note(7), not a, a if b else None, a is b, a != b

    log, g = [], run(f)
    return [tell(g, X, *pair) for pair in ((2, 3), (3, 2), (0, 5), (0, 0), (2.0, 2), ([], 2))], log


@ALL.scenario
def large_numbers(run):
    def f(x, n):
        return (
            n * n,
            n // 7,
            n % 7,
            -n // 7,
            n << 3,
            n >> 2,
            n & 0xFF,
            ~n,
            n.bit_length(),
            (n + 1) / 2,
            x + n % 5,
        )

    g = run(f)
    return [tell(g, X, n) for n in (2**100, -(2**100), 2**63, 2**62, -1, 3, True)]


@ALL.scenario
def complex_numbers(run):
    def f(x, z):
        w = z * (1 + 2j) - z.conjugate()
        return x * abs(z), w.real, w.imag, z**2, z == z.real, complex(1, 2) + 1, torch.complex(x, x) * z

    g = run(f)
    return [g(X, z) for z in (1j, 0j, 2 + 0j, complex(-0.0, -0.0))]


@ALL.scenario
def strings_and_formats(run):
    def f(x, name, n):
        text = (
            f"{name!r:>8}|{n:+.2f}|{n:05}|{x.shape[0]=}|{name:{n}}" + name.upper() % () + "%s-%d" % (name, n)
        )
        return x * len(text), text, name.partition("b"), "-".join(c for c in name), name[::-1], name * 2

    g = run(f)
    return [tell(g, X, *call) for call in (("abc", 3), ("", 10), ("ß", 1))]


@ALL.scenario
def dict_operations(run):
    def f(x, d, e):
        u = d | e
        d |= e
        last = d.popitem()
        d.setdefault("z", []).append(1)
        d["q"] = d.pop("q", 0) + 1
        same = d.keys() & e.keys()
        return x + len(u), u, d, last, sorted(same), d == e, list(reversed(d)), {**d, "x": 1, **e}

    g = run(f)
    calls = [
        ({"a": 1}, {"b": 2}),
        ({"a": 1, "b": 3}, {"b": 2}),
        ({}, {"q": 2}),
        ({"q": 4, "b": 1}, {"b": 1, "q": 4}),
    ]
    return [tell(g, X, *call) for call in calls], calls


@ALL.scenario
def dicts_of_other_kinds(run):
    def f(x):
        counts = collections.Counter("abca")
        counts.update("aa")
        groups = collections.defaultdict(list)
        for i, word in enumerate(("p", "q", "p")):
            groups[word].append(x * i)
        ordered = collections.OrderedDict(a=1, b=2)
        ordered.move_to_end("a")
        chain = collections.ChainMap({"a": 5}, ordered)
        return counts.most_common(1), dict(groups), ordered, chain["a"], chain["b"], x + sum(counts.values())

    return run(f)(X), run(f)(X)


@ALL.scenario
def deques(run):
    def f(x, q):
        q.append(x)
        q.rotate(1)
        q.appendleft(1)
        return q[0], q[-1], len(q), q.maxlen, list(q)

    g = run(f)
    return [
        g(X, collections.deque(items, most))
        for items, most in (([1, 2], None), ([1, 2], 2), ([], 1), ([], None))
    ]


@ALL.scenario
def itertools_and_zip(run):
    def f(x, a, b):
        seen = [i + j for i, j in zip(a, b)]  # noqa: B905
        try:
            seen += [i for i, _ in zip(a, b, strict=True)]
        except ValueError as error:
            seen.append(str(error))
        seen += [list(p) for p in itertools.pairwise(a)]
        seen += list(itertools.accumulate(a, initial=1))
        seen += [(k, list(g)) for k, g in itertools.groupby(a, key=lambda v: v % 2)]
        seen += list(itertools.chain.from_iterable([a, b])) + list(
            itertools.islice(itertools.count(2), 1, 6, 2)
        )
        seen += list(itertools.zip_longest(a, b, fillvalue=0)) + list(itertools.product(a, repeat=2))[:3]
        return x * len(seen), seen, next(iter(a), None), any(v > 1 for v in a), max(a, default=9)

    g = run(f)
    return [g(X, *call) for call in (([1, 3, 2], [4, 5, 6]), ([1], [4, 5]), ([], []))]


@ALL.scenario
def sorting(run):
    def f(x, items):
        items.sort(key=lambda v: -v[0])
        return (
            x,
            items,
            sorted(items, key=operator.itemgetter(1), reverse=True),
            min(items),
            max(items, key=len),
        )

    g = run(f)
    return [
        tell(g, X, items) for items in ([(1, "b"), (2, "a"), (1, "a")], [(1, 2), (1.0, 1)], [(1,), ("a",)])
    ]


@ALL.scenario
def slices_and_ranges(run):
    def f(x, s, r):
        items = list(range(10))
        items[s] = [7] * len(items[s])
        part = r[1:]
        return (
            x[s],
            items,
            part,
            part.stop,
            r.stop,
            len(r),
            r.index(r[0]) if len(r) else None,
            s.indices(5),
            2 in r,
        )

    g = run(f)
    calls = [
        (slice(0, 2), range(0, 5, 2)),
        (slice(0, 2), range(0, 6, 2)),
        (slice(None), range(3)),
        (slice(-1, None), range(0)),
    ]
    return [tell(g, X, *call) for call in calls]


@pytest.mark.parametrize("name", ALL)
def test_odd_python(hook, name):
    ALL.check(name)


@pytest.mark.parametrize("name", ALL)
def test_odd_python_with_symbolic_sizes(hook, name):
    ALL.check(name, dynamic=True)
