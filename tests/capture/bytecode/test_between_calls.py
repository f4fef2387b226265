"""What changes between two calls: dicts, classes, globals, defaults, closures, modules, settings, arguments."""

import collections
import enum
import fractions
import functools
import threading
import types

import numpy as np
import pytest
import torch
from torch import nn

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


@ALL.scenario
def a_dict_of_a_global_grows(run):
    space = fresh("D = {'a': 2}\ndef f(x):\n    return x * len(D) + sum(D.values())")
    g = run(space["f"])
    first = g(X)
    space["D"]["z"] = 4
    second = g(X)
    space["D"]["a"] = 2.5
    return first, second, g(X)


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


class Answering:
    def __init__(self):
        self.asked = []

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        self.asked.append(name)
        return len(self.asked)


@ALL.scenario
def attributes_that_are_made_up(run):
    def f(a, x):
        return x * a.one + a.two, hasattr(a, "three"), getattr(a, "_no", 5)

    g, a = run(f), Answering()
    first = g(a, X)
    second = g(a, X)
    a.one = 100
    return first, second, g(a, X), a.asked


class Counting:
    reads = 0

    @property
    def value(self):
        self.reads += 1
        return self.reads

    @value.setter
    def value(self, given):
        self.reads = given * 10


@ALL.scenario
def a_property_that_counts(run):
    def f(c, x):
        y = x * c.value
        c.value = 3
        return y + c.value

    g, c = run(f), Counting()
    return g(c, X), c.reads, g(c, X), c.reads, g(Counting(), X)


@ALL.scenario
def globals_bound_again(run):
    space = fresh("K = 2\ndef h(x):\n    return x + K\ndef f(x):\n    return h(x) * K")
    g = run(space["f"])
    seen = [g(X)]
    for value in (3, 3.0, True, X, "K"):
        space["K"] = value
        seen.append(tell(g, X))
    space["K"] = 2
    space["h"] = lambda x: x - 100
    seen.append(g(X))
    del space["h"]
    return [*seen, tell(g, X)]


@ALL.scenario
def a_global_hides_a_builtin(run):
    space = fresh("def f(x):\n    return x * len([1, 2]) + abs(-3)")
    g = run(space["f"])
    first = g(X)
    space["len"] = lambda items: 50
    second = g(X)
    del space["len"]
    return first, second, g(X)


@ALL.scenario
def a_global_made_and_deleted(run):
    space = fresh("def f(x):\n    global COUNT\n    COUNT = x.shape[0]\n    del COUNT\n    return x + 1")
    space["COUNT"] = 3
    g = run(space["f"])
    first = g(X), "COUNT" in space
    space["COUNT"] = 4
    return first, g(X), "COUNT" in space, g(X)


@ALL.scenario
def replaced_torch_functions(run):
    def f(x):
        return torch.sin(x) + x.abs()

    g, old = run(f), (torch.sin, torch.Tensor.abs)
    first = g(X)
    try:
        torch.sin = lambda x: x * 1000
        torch.Tensor.abs = lambda self: self * 7
        second = g(X)
    finally:
        torch.sin = old[0]
        torch.Tensor.abs = old[1]
    return first, second, g(X)


@ALL.scenario
def defaults_that_change(run):
    def f(x, items=[1], *, k=2):  # noqa: B006
        items.append(k)
        return x * len(items) + sum(items)

    g = run(f)
    seen = [g(X), g(X), g(X)]
    f.__defaults__ = ([5, 5],)
    seen.append(g(X))
    f.__kwdefaults__ = {"k": 100}
    seen.append(g(X))
    f.__kwdefaults__["k"] = 7
    return [*seen, g(X), f.__defaults__]


@ALL.scenario
def defaults_of_an_inner_function(run):
    def h(x, k=2):
        return x * k

    def f(x):
        return h(x) + 1

    g = run(f)
    first = g(X)
    h.__defaults__ = (9,)
    second = g(X)
    h.__code__ = (lambda x, k=2: x - k).__code__
    return first, second, g(X)


@ALL.scenario
def closures_that_share_a_cell(run):
    def make():
        n = 1

        def up(x):
            nonlocal n
            n += 1
            return x * n

        def down(x):
            nonlocal n
            n -= 3
            return x - n

        return up, down, lambda: n

    up, down, now = make()
    g, h = run(up), run(down)
    return g(X), h(X), now(), g(X), now(), h(X), g(X), now()


@ALL.scenario
def closures_in_a_loop(run):
    def f(x):
        late = [lambda y: y * i for i in range(3)]
        early = [lambda y, i=i: y * i for i in range(3)]
        return [h(x) for h in late] + [h(x) for h in early]

    return run(f)(X)


@ALL.scenario
def a_class_attribute_changes(run):
    class Model:
        scale = 2

        def __call__(self, x):
            return x * self.scale

    m = Model()
    g = run(lambda x: m(x))
    seen = [g(X)]
    Model.scale = 3
    seen.append(g(X))
    m.scale = 10
    seen.append(g(X))
    del m.scale
    seen.append(g(X))
    Model.scale = property(lambda self: 77)
    seen.append(g(X))
    Model.__call__ = lambda self, x: x - self.scale
    return [*seen, g(X)]


@ALL.scenario
def the_class_of_an_object_changes(run):
    class One:
        def go(self, x):
            return x + 1

    class Two:
        def go(self, x):
            return x * 2

    o = One()
    g = run(lambda x: o.go(x))
    first = g(X)
    o.__class__ = Two
    return first, g(X)


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
def settings_between_calls(run):
    w = nn.Parameter(X.clone())

    def f(x):
        y = (x @ x.T) * w[0, 0]
        return y, y.requires_grad, y.dtype, torch.is_grad_enabled(), torch.zeros(1).dtype

    g, seen = run(f), []
    seen.append(g(X))
    with torch.no_grad():
        seen.append(g(X))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        seen.append(g(X))
    with torch.inference_mode():
        seen.append([str(part) for part in g(X)])
    torch.set_default_dtype(torch.float64)
    try:
        seen.append(g(X))
    finally:
        torch.set_default_dtype(torch.float32)
    w.requires_grad_(False)
    seen.append(g(X))
    return [[part.detach() if isinstance(part, torch.Tensor) else part for part in one] for one in seen]


@ALL.scenario
def a_module_changes(run):
    m = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Dropout(0.5))
    nn.init.eye_(m[0].weight)
    nn.init.zeros_(m[0].bias)
    m.eval()
    g, seen = run(m), []
    with torch.no_grad():
        seen.append(g(X))
        m[1] = nn.Tanh()
        seen.append(g(X))
        m._modules["1"] = nn.Sigmoid()
        seen.append(g(X))
        m.register_module("3", nn.Softplus())
        seen.append(g(X))
        m.append(nn.Identity())
        seen.append(g(X))
        m[0].weight = nn.Parameter(torch.ones(3, 3))
        seen.append(g(X))
        m[0].weight.data = torch.zeros(3, 3)
        seen.append(g(X))
        m[0].bias = None
        seen.append(g(X))
        m.train()
        torch.manual_seed(0)
        seen.append(g(X))
        m[2].p = 0.0
        seen.append(g(X))
        m[0].register_forward_hook(lambda module, args, out: out + 5)
        seen.append(g(X))
        m[0].forward = lambda x: x * 3
        seen.append(g(X))
        del m[0]
        seen.append(g(X))
    return seen


@ALL.scenario
def a_module_inside_a_module_is_registered(run):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3, bias=False)
            nn.init.eye_(self.inner.weight)

        def forward(self, x):
            return self.inner(x) + len(list(self.children()))

    m, seen = Outer(), []
    g = run(m)
    with torch.no_grad():
        seen.append(g(X))
        twice = nn.Linear(3, 3, bias=False)
        nn.init.constant_(twice.weight, 2)
        m._modules["inner"] = twice
        seen.append(g(X))
        m.register_module("inner", nn.Identity())
        seen.append(g(X))
        m.add_module("more", nn.Identity())
        seen.append(g(X))
        m.inner.register_buffer("weight", torch.ones(2, 2))
        seen.append(g(X))
    return seen


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
def a_cached_property(run):
    class Model:
        def __init__(self, k):
            self.k = k

        @functools.cached_property
        def scale(self):
            calls.append(self.k)
            return self.k * 2

    calls = []
    g, m = run(lambda m, x: x * m.scale), Model(3)
    seen = [g(m, X), g(m, X), vars(m)]
    m.__dict__["scale"] = 9
    seen.append(g(m, X))
    del m.scale
    return [*seen, g(m, X), g(Model(4), X), calls]


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


@ALL.scenario
def slots_and_weak_things(run):
    class Slotted:
        __slots__ = ("a", "b")

        def __init__(self, a):
            self.a = a

    def f(s, x):
        s.b = s.a + 1
        y = x * s.b
        del s.a
        return y, hasattr(s, "a")

    g, s = run(f), Slotted(2)
    return g(s, X), tell(g, s, X), s.b, g(Slotted(5), X)


@ALL.scenario
def a_namespace_and_a_module(run):
    space = types.SimpleNamespace(k=2, inner=types.SimpleNamespace(v=[1]))

    def f(x):
        space.inner.v.append(space.k)
        space.n = len(space.inner.v)
        return x * space.n

    g = run(f)
    seen = [g(X), g(X)]
    space.inner = types.SimpleNamespace(v=(1,))
    return [*seen, tell(g, X), vars(space)["n"]]


@pytest.mark.parametrize("name", ALL)
def test_between_calls(hook, name):
    ALL.check(name)


@pytest.mark.parametrize("name", ALL)
def test_between_calls_with_symbolic_sizes(hook, name):
    ALL.check(name, dynamic=True)
