"""Objects' corners: lookups that bypass instances, descriptors, metaclasses, what operators call, class data."""

import abc
import functools
import operator
import types

import pytest
import torch
from torch import nn

from tests.capture.bytecode.scenarios import Scenarios, tell

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
def methods_that_operators_call(run):
    class Plain:
        def __len__(self):
            return 3

        def __call__(self, x):
            return x * 2

        def __iter__(self):
            return iter([1, 2])

        def __getitem__(self, key):
            return key

        def __enter__(self):
            return 5

        def __exit__(self, *args):
            return None

    def f(p, x):
        with p as five:
            x = p(x) + five
        return x, len(p), list(p), p[4], bool(p), [*p], 7 in p

    g, p = run(f), Plain()
    seen = [g(p, X)]
    p.__len__ = lambda: 0
    p.__call__ = lambda x: x * 100
    p.__iter__ = lambda: iter([])
    p.__getitem__ = lambda key: 0
    p.__enter__ = lambda: 0
    return [*seen, g(p, X), p.__len__()]


@ALL.scenario
def class_methods_by_super(run):
    class A:
        word = "a"

        @classmethod
        def make(cls, k):
            made = cls.__new__(cls)
            made.k = k
            return made

        @staticmethod
        def twice(x):
            return x * 2

        @property
        def tall(self):
            return self.k * 10

        @classmethod
        def name(cls):
            return cls.word

    class B(A):
        word = "b"

        @classmethod
        def make(cls, k):
            return super().make(k + 1)

        @property
        def tall(self):
            return super().tall + 1

        def go(self, x):
            return super().twice(x) * self.tall, super().name(), self.name(), super().word

    def f(x):
        b = B.make(1)
        return b.go(x), type(b).__name__, b.k

    return run(f)(X), run(f)(X)


@ALL.scenario
def right_sides_that_come_first(run):
    class A:
        def __add__(self, other):
            return "A.add"

        def __radd__(self, other):
            return "A.radd"

        def __eq__(self, other):
            return "A.eq"

        def __lt__(self, other):
            return "A.lt"

        def __gt__(self, other):
            return "A.gt"

        __hash__ = None

    class B(A):
        def __radd__(self, other):
            return "B.radd"

        def __eq__(self, other):
            return "B.eq"

        def __gt__(self, other):
            return "B.gt"

    class C(A):
        pass

    def f(x):
        a, b, c = A(), B(), C()
        seen = [a + b, b + a, a + c, c + a, a == b, b == a, a < b, b < a, a != c, 1 + a, a + a, b + b, 1 == a]
        return x + len(seen), seen

    return run(f)(X)


@ALL.scenario
def comparing_without_and_with_order(run):
    @functools.total_ordering
    class Ordered:
        def __init__(self, k):
            self.k = k

        def __eq__(self, other):
            return isinstance(other, Ordered) and self.k == other.k

        def __lt__(self, other):
            return self.k < other.k

        def __hash__(self):
            return hash(self.k)

    def f(x, a, b):
        seen = [
            a == b,
            a != b,
            a < b,
            a <= b,
            a > b,
            a >= b,
            a in [b],
            [a].count(b),
            len({a, b}),
            max(a, b).k,
        ]
        ordered = sorted([b, a, Ordered(2)])
        return x * a.k, seen, [o.k for o in ordered], min([b, a], key=operator.attrgetter("k")).k

    g = run(f)
    return [tell(g, X, Ordered(a), Ordered(b)) for a, b in ((1, 2), (2, 1), (1, 1))]


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
def metaclasses_and_abstract_classes(run):
    class Meta(type):
        def __call__(cls, *args):
            made = super().__call__(*args)
            made.tagged = True
            return made

        def __getitem__(cls, key):
            return f"{cls.__name__}[{key}]"

        def __instancecheck__(cls, value):
            return value == 5

        @property
        def shade(cls):
            return "dark"

    class Made(metaclass=Meta):
        def __init__(self, k):
            self.k = k

    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

    class Square(Shape):
        def area(self):
            return 4

    def f(x):
        m = Made(3)
        try:
            Shape()
        except TypeError:
            x = x + 1
        seen = [
            m.tagged,
            Made["q"],
            isinstance(5, Made),
            isinstance(m, Made),
            Made.shade,
            isinstance(Square(), Shape),
        ]
        return x * m.k * Square().area(), seen, issubclass(Square, Shape)

    return run(f)(X), run(f)(X)


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
def test_odd_objects(hook, name):
    ALL.check(name)


@pytest.mark.parametrize("name", ALL)
def test_odd_objects_with_symbolic_sizes(hook, name):
    ALL.check(name, dynamic=True)
