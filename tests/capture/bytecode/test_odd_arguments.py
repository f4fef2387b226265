"""Arguments' corners: kinds of numbers, zeros with signs, equal keys, NaN, iterators half used, spreads, threads."""

import collections
import enum
import fractions
import functools
import threading

import numpy as np
import pytest
import torch

from tests.capture.bytecode.scenarios import Scenarios, tell

ALL = Scenarios()
X = torch.linspace(-2, 2, 6).reshape(2, 3)


def fresh(text, **names):
    """The namespace of a module made from text."""
    space = {"torch": torch, **names}
    exec(text, space)
    return space


@ALL.scenario
def order_of_a_dict(run):
    def f(d, x):
        for key, value in d.items():
            x = x * 2 + value if key == "a" else x - value
        return x

    g, d = run(f), {"a": 1, "b": 2}
    first = g(d, X)
    d["a"] = d.pop("a")
    return first, g(d, X), g({"b": 2, "a": 1, "c": 5}, X)


class Doubling(list):
    def __getitem__(self, at):
        return list.__getitem__(self, at) * 2

    def __len__(self):
        return list.__len__(self) + 1


class Reversed(list):
    def __iter__(self):
        return iter(list(list.__iter__(self))[::-1])

    def append(self, value):
        list.append(self, value * 10)


class Shouting(dict):
    def __getitem__(self, key):
        return dict.__getitem__(self, key.upper())

    def __missing__(self, key):
        return 7

    def get(self, key, default=None):
        return "got"

    def __contains__(self, key):
        return True


class Filling(dict):
    def __missing__(self, key):
        self[key] = len(self) + 10
        return self[key]


@ALL.scenario
def lists_with_their_own_methods(run):
    def f(items, x):
        items.append(3)
        out = x * items[0] + len(items)
        for item in items:
            out = out * 2 + item
        return out, items, [*items], bool(items)

    g = run(f)
    return [tell(g, kind([1, 2]), X) for kind in (list, Doubling, Reversed, Doubling, list)]


@ALL.scenario
def dicts_with_their_own_methods(run):
    def f(d, x):
        return x * d["a"], d.get("b"), "q" in d, {**d}, dict(d), list(d)

    g = run(f)
    kinds = (dict, Shouting, Filling, collections.Counter, Shouting, collections.UserDict)
    return [tell(g, kind({"a": 2, "A": 5}), X) for kind in kinds]


@ALL.scenario
def a_missing_key_fills(run):
    def f(d, x):
        return x + d["new"], d["new"], len(d)

    g, d = run(f), Filling()
    return g(d, X), g(d, X), dict(d)


@ALL.scenario
def one_kind_of_number_after_another(run):
    def f(x, k):
        return x * k, k, k + 1, isinstance(k, bool)

    g = run(f)
    values = (1, True, 1.0, 0, False, 0.0, -0.0, 2**70, float("inf"), float("nan"), 1j, np.float32(1), np.int64(1),
              np.float64(1), fractions.Fraction(1), np.bool_(True))  # fmt: skip
    return [tell(g, X, value) for value in values]


@ALL.scenario
def zeros_with_signs(run):
    def f(x, k):
        return x / (x * 0 + k), (k, -k), 0.0 * -1, str(k)

    g = run(f)
    return [[str(part) for part in g(X, value)] for value in (0.0, -0.0, 0, complex(0.0, -0.0), -0.0)]


@ALL.scenario
def zeros_inside_tuples_and_keys(run):
    def f(x, pair, d):
        return x / (x * 0 + pair[0]), str(pair), str(list(d)), [str(k) for k in d]

    g = run(f)
    calls = [((0.0, 1), {0.0: 1}), ((-0.0, 1), {-0.0: 1}), ((0, True), {0: 1}), ((False, 1), {False: 1})]
    return [[str(part) for part in g(X, *call)] for call in calls]


@ALL.scenario
def keys_that_are_equal(run):
    def f(x, d):
        d[1] = "int"
        d[1.0] = "float"
        return x * len(d), [(type(k).__name__, v) for k, v in d.items()], True in d, d.get(1)

    g = run(f)
    return [g(X, d) for d in ({}, {True: 0}, {1: 0}, {1.0: 0}, {1: 0, 2: 1})]


@ALL.scenario
def nan_as_a_key(run):
    nan = float("nan")

    def f(x, d, key):
        return x + len(d), key in d, d.get(key, "none"), float("nan") in d, nan in [nan], nan == nan

    g = run(f)
    return [g(X, {nan: 1}, nan), g(X, {nan: 1}, float("nan")), g(X, {float("nan"): 1}, nan)]


@ALL.scenario
def dicts_with_odd_keys(run):
    class Key(enum.Enum):
        A = 1

    def f(x, d):
        for key, value in d.items():
            x = x + value
        return x, [str(key) for key in d]

    g, t = run(f), torch.ones(1)
    seen = [g(X, {Key.A: 1, (1, 2): 3}), g(X, {(1, 2.0): 3, None: 1}), g(X, {int: 1, frozenset([1]): 2})]
    return [*seen, tell(g, X, {t: 1})[0], g(X, {2**80: 1, "2": 1, b"x": 4})]


@ALL.scenario
def a_half_used_generator(run):
    def numbers():
        n = 1
        while True:
            n *= 2
            yield n

    def f(x, source):
        return x * next(source) + next(source)

    g, source = run(f), numbers()
    return g(X, source), next(source), g(X, source), next(source)


@ALL.scenario
def half_used_iterators(run):
    def f(x, it):
        for value in it:
            x = x + value
            if value > 2:
                break
        return x

    g, seen = run(f), []
    for make in (iter, reversed, lambda v: map(abs, v), lambda v: filter(None, v), lambda v: (k for k in v)):
        it = make([1, 2, 3, 4, 5])
        next(it)
        seen += [g(X, it), list(it)]
    it = iter({"a": 1, "b": 2}.values())
    return [*seen, g(X, it), list(it), g(X, iter(range(3)))]


@ALL.scenario
def a_generator_function_that_returns(run):
    def parts(x):
        got = yield x
        while got is not None:
            got = yield x * got
        return "end"

    def outer(x):
        result = yield from parts(x)
        yield x, result

    def f(x):
        it = outer(x)
        first = next(it)
        return first, it.send(3), it.send(4), list(it)

    return run(f)(X)


@ALL.scenario
def a_generator_that_leaves_the_call(run):
    def f(x):
        return (x * k for k in (1, 2, 3))

    it = run(f)(X)
    return next(it), list(it), list(it)


@ALL.scenario
def arguments_in_many_ways(run):
    def f(a, /, b, *rest, c=3, **named):
        return a * b + c, rest, named, list(named)

    g = run(f)
    return [
        g(X, 2),
        g(X, b=2),
        g(X, 2, 4, 5, c=1),
        g(X, 2, z=1, y=2),
        g(X, 2, y=2, z=1),
        g(X, **{"b": 4, "a": 5}),
        tell(g, a=X, b=2),
        tell(g, X),
        tell(g, X, 2, b=3),
    ]


@ALL.scenario
def arguments_passed_on(run):
    def h(*args, scale=1, **named):
        return args[0] * scale + sum(args[1:]) + named.get("k", 0)

    def f(x, args, named):
        return h(x, *args, **named), h(*[x, *args], **{**named, "k": 1}), h(x, *args, *args)

    g = run(f)
    return [
        g(X, (1, 2), {"scale": 2}),
        g(X, [1, 2], {"scale": 3}),
        g(X, iter([1]), {}),
        tell(g, X, (), {1: 2}),
        tell(g, X, 3, {}),
        g(X, (1,), {"k": 3, "scale": 0}),
    ]


@ALL.scenario
def partials_and_caches(run):
    @functools.lru_cache(maxsize=None)
    def scale(n):
        calls.append(n)
        return n * 2

    calls = []

    def f(x, p, n):
        return p(x) * scale(n)

    g, p = run(f), functools.partial(torch.add, other=2)
    seen = [g(X, p, 1), g(X, p, 1), g(X, p, 2), g(X, functools.partial(torch.add, other=5), 2)]
    p.keywords["other"] = 100
    return [*seen, g(X, p, 2), scale.cache_info().currsize, calls]


@ALL.scenario
def a_cached_method(run):
    calls = []

    class Lengths:
        def __init__(self, n):
            self.n = n

        @functools.lru_cache  # noqa: B019
        def sizes(self, times):
            calls.append(times)
            return (self.n * times, self)

    def f(lengths, x):
        size, owner = lengths.sizes(3)
        return x * size + owner.n + lengths.sizes(times=2)[0]

    g, one, two = run(f), Lengths(2), Lengths(5)
    return [g(one, X), g(one, X), g(two, X), g(one, X), calls]


@ALL.scenario
def single_dispatch(run):
    @functools.singledispatch
    def go(value, x):
        return x + 1

    @go.register
    def _(value: int, x):
        return x * value

    g = run(lambda v, x: go(v, x))
    first = g(2, X), g("a", X)
    go.register(str, lambda value, x: x * 100)
    return first, g("a", X), g(2, X), g(2.5, X)


@ALL.scenario
def from_several_threads(run):
    def f(x, k):
        y = x * k
        for _ in range(3):
            y = torch.sin(y) + k
        return y

    g, seen, lock = run(f), {}, threading.Lock()

    def work(k):
        for _ in range(5):
            with torch.no_grad() if k % 2 else torch.enable_grad():
                result = g(X, k)
            with lock:
                seen.setdefault(k, []).append(result)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [seen[k] for k in range(6)]


@ALL.scenario
def numpy_scalars_and_arrays(run):
    def f(x, v):
        return x * float(v), int(v) + 1, np.sqrt(v), x + v, np.asarray(x).sum()

    g = run(f)
    return [tell(g, X, value) for value in (np.float32(4), np.int64(4), np.float64(9), np.array(4.0), 16)]


@pytest.mark.parametrize("name", ALL)
def test_odd_arguments(hook, name):
    ALL.check(name)


@pytest.mark.parametrize("name", ALL)
def test_odd_arguments_with_symbolic_sizes(hook, name):
    ALL.check(name, dynamic=True)
