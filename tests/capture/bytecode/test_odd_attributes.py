"""Attributes' corners: made up, by descriptors, by name, set and looked at from outside."""

import types

import pytest
import torch
from torch import nn

from tests.capture.bytecode.scenarios import Scenarios

ALL = Scenarios()
X = torch.linspace(-2, 2, 6).reshape(2, 3)


@ALL.scenario
def data_of_a_class_by_its_name(run):
    class Config:
        helper = types.SimpleNamespace(k=2)
        items = [1]
        table = {"a": 1}
        pair = (1, 2)
        kind = float
        scale = torch.tensor(2.0)

    def f(x):
        c = Config
        return x * c.helper.k + c.items[-1] + c.table["a"] + c.pair[0] + c.scale, c.kind(3)

    g = run(f)
    seen = [g(X)]
    Config.helper.k = 5
    seen.append(g(X))
    Config.items.append(9)
    seen.append(g(X))
    Config.table["a"] = 7
    seen.append(g(X))
    Config.pair = (4, 2)
    seen.append(g(X))
    Config.kind = str
    seen.append(g(X))
    Config.scale.add_(1)
    seen.append(g(X))
    Config.helper = types.SimpleNamespace(k=-1)
    return [*seen, g(X)]


class Fallback:
    def __getattr__(self, name):
        return 10


@ALL.scenario
def an_attribute_that_was_made_up_is_set(run):
    g, a = run(lambda a, x: x * a.k), Fallback()
    first = g(a, X)
    a.k = 3
    second = g(a, X)
    Fallback.k = 4
    third = g(Fallback(), X)
    del Fallback.k
    return first, second, third, g(Fallback(), X)


@ALL.scenario
def a_modules_fallback(run):
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

        def forward(self, x):
            return self.inner(x) * self.scale + self.bias

    inner = nn.Linear(3, 3)
    nn.init.eye_(inner.weight)
    nn.init.ones_(inner.bias)
    inner.scale = 2
    m = Wrapper(inner)
    g, seen = run(m), []
    with torch.no_grad():
        seen.append(g(X))
        m.scale = 5
        seen.append(g(X))
        m._buffers["bias"] = torch.zeros(3)
        seen.append(g(X))
    return seen


@ALL.scenario
def a_default_for_a_property_that_counts(run):
    class Counting:
        n = 0

        @property
        def value(self):
            self.n += 1
            return self.n

        @property
        def broken(self):
            self.n += 1
            raise AttributeError("broken")

    def f(c, x):
        return x + getattr(c, "value", 0) + getattr(c, "broken", 50), hasattr(c, "value"), c.n

    g, c = run(f), Counting()
    return g(c, X), g(c, X), c.n


@ALL.scenario
def descriptors_of_the_users_own(run):
    class Field:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, instance, owner):
            return self if instance is None else getattr(instance, self.name, 7)

        def __set__(self, instance, value):
            setattr(instance, self.name, value * 2)

        def __delete__(self, instance):
            delattr(instance, self.name)

    class Lazy:
        def __get__(self, instance, owner):
            return 100

    class Model:
        width = Field()
        lazy = Lazy()

    def f(m, x):
        before = m.width
        m.width = before + 1
        return x * m.width + m.lazy, type(Model.width).__name__, vars(m) if False else m._width

    g, m = run(f), Model()
    seen = [g(m, X), g(m, X), vars(m)]
    m.__dict__["lazy"] = 3
    m.__dict__["width"] = 1000
    return [*seen, g(m, X)]


@ALL.scenario
def attributes_written_by_setattr(run):
    class Guarded:
        def __init__(self):
            object.__setattr__(self, "log", [])

        def __setattr__(self, name, value):
            self.log.append(name)
            object.__setattr__(self, name, value)

        def __delattr__(self, name):
            self.log.append("-" + name)
            object.__delattr__(self, name)

        def __getattribute__(self, name):
            if name == "double":
                return object.__getattribute__(self, "k") * 2
            return object.__getattribute__(self, name)

    def f(c, x):
        c.k = 3
        setattr(c, "j", x)
        del c.j
        return x * c.double, hasattr(c, "j"), list(c.log)

    g, c = run(f), Guarded()
    return g(c, X), g(c, X), c.log


@ALL.scenario
def attributes_looked_at_as_a_dict_and_written(run):
    class Config:
        def __init__(self):
            self.kind, self.size = None, 3

        def __getattribute__(self, name):
            if name != "__dict__" and name not in object.__getattribute__(self, "__dict__"):
                raise AttributeError(name)
            return super().__getattribute__(name)

    def f(c, x):
        seen = [list(vars(c).items())]
        if c.kind is None:
            c.kind = "one"
        c.extra = c.size + 1
        seen.append(dict(vars(c)))
        del c.size
        seen += [list(vars(c)), "size" in vars(c), c.extra, vars(c).get("kind")]
        c.size = 5
        return x * c.extra, seen, list(vars(c))

    def late(c, x):
        c.kind = x + 1
        return vars(c)["kind"] * 2, len(vars(c)), c.kind

    def both(c, x):
        c.kind = "by name"
        vars(c)["kind"] = "by key"
        vars(c)["size"] = 7
        c.size = 8
        return x + c.size, c.kind

    results = []
    for function in (f, late, both):
        g, c = run(function), Config()
        results += [g(c, X), g(c, X), dict(vars(c))]
    return results


@pytest.mark.parametrize("name", ALL)
def test_odd_attributes(hook, name):
    ALL.check(name)


@pytest.mark.parametrize("name", ALL)
def test_odd_attributes_with_symbolic_sizes(hook, name):
    ALL.check(name, dynamic=True)
