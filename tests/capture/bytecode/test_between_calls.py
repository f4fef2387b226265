"""What changes between two calls: dicts, classes, globals, defaults, closures, modules, settings."""

import functools
import types

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
def a_dict_of_a_global_grows(run):
    space = fresh("D = {'a': 2}\ndef f(x):\n    return x * len(D) + sum(D.values())")
    g = run(space["f"])
    first = g(X)
    space["D"]["z"] = 4
    second = g(X)
    space["D"]["a"] = 2.5
    return first, second, g(X)


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
