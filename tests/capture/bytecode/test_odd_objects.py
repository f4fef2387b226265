"""Objects' corners: lookups that bypass instances, descriptors, metaclasses, what operators call, class data."""

import abc
import functools
import operator

import pytest
import torch

from tests.capture.bytecode.scenarios import Scenarios, tell

ALL = Scenarios()
X = torch.linspace(-2, 2, 6).reshape(2, 3)


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


@pytest.mark.parametrize("name", ALL)
def test_odd_objects(hook, name):
    ALL.check(name)


@pytest.mark.parametrize("name", ALL)
def test_odd_objects_with_symbolic_sizes(hook, name):
    ALL.check(name, dynamic=True)
