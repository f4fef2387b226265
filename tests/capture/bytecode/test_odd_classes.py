"""Classes' corners: operators of their own, super, enums and flags, dataclasses."""

import dataclasses
import enum

import pytest
import torch

from tests.capture.bytecode.scenarios import Scenarios

ALL = Scenarios()
X = torch.linspace(-2, 2, 6).reshape(2, 3)


@ALL.scenario
def classes_with_operators(run):
    class V:
        def __init__(self, v):
            self.v = v

        def __add__(self, o):
            return V(self.v + (o.v if isinstance(o, V) else o))

        def __radd__(self, o):
            return V(o - self.v)

        def __mul__(self, o):
            return NotImplemented

        def __matmul__(self, o):
            return self.v @ o

        def __eq__(self, o):
            return isinstance(o, V)

        def __hash__(self):
            return 1

        def __bool__(self):
            return False

        def __len__(self):
            return 3

        def __contains__(self, k):
            return k == "in"

        def __call__(self, *args):
            return self.v * len(args)

        def __getitem__(self, key):
            return (key, self.v)

        def __iadd__(self, o):
            self.v = self.v + 100
            return self

        def __neg__(self):
            return V(-self.v)

        def __lt__(self, o):
            return True

        def __index__(self):
            return 2

    def f(x):
        v, w = V(x), V(x * 2)
        u = v
        u += 1
        seen = [
            (v + w).v,
            (3 + v).v,
            v == w,
            v != w,
            bool(v),
            len(v),
            "in" in v,
            v(1, 2),
            v[1:2, ...][0],
            (-v).v,
        ]
        try:
            v * 2
        except TypeError as error:
            seen.append(str(error))
        seen += [v < w, v > w, u is v, {v: 1}[w], [1, 2, 3][v], v @ x.T, sum([v, w], start=V(x)).v]
        return seen

    return run(f)(X), run(f)(X)


@ALL.scenario
def classes_and_super(run):
    class A:
        made = 0

        def __new__(cls, *args):
            cls.made += 1
            return super().__new__(cls)

        def __init_subclass__(cls, **named):
            cls.named = named

        def go(self, x):
            return x + 1

    class B(A, word="b"):
        def go(self, x):
            return super().go(x) * 2

    class C(A):
        def go(self, x):
            return super().go(x) * 3

    class D(B, C):
        def __init__(self, k):
            self.k = k

        def go(self, x):
            return super().go(x) * self.k

        @classmethod
        def make(cls, k):
            return cls(k)

        @staticmethod
        def twice(x):
            return x * 2

    def f(x, kind):
        d = kind.make(2)
        return d.twice(d.go(x)), kind.made, type(d).__name__, isinstance(d, A), kind.named, super(D, d).go(x)

    g = run(f)
    return g(X, D), g(X, D), D.made, A.made


@ALL.scenario
def enums_and_flags(run):
    class Mode(enum.Flag):
        A = enum.auto()
        B = enum.auto()

    class Word(str, enum.Enum):
        ONE = "one"

    def f(x, m, w, d):
        return (
            x * m.value,
            m | Mode.B,
            Mode.A in m,
            w == "one",
            w.value,
            w.name,
            d[w],
            list(d),
            [e.name for e in Mode],
        )

    g = run(f)
    calls = [
        (Mode.A, Word.ONE, {"one": 1}),
        (Mode.A | Mode.B, Word.ONE, {Word.ONE: 2}),
        (Mode.A, Word.ONE, {Word.ONE: 2}),
        (Mode.A, Word("one"), {"one": 3}),
    ]
    return [[str(part) for part in g(X, *call)] for call in calls]


@ALL.scenario
def dataclasses_of_many_kinds(run):
    @dataclasses.dataclass(frozen=True, order=True)
    class Frozen:
        a: int
        b: tuple = ()

    @dataclasses.dataclass(slots=True)
    class Slotted:
        x: object
        items: list = dataclasses.field(default_factory=list)

        def __post_init__(self):
            self.items.append(len(self.items))

    def f(x, given):
        one = Frozen(2, (1,))
        two = dataclasses.replace(one, a=3)
        s = Slotted(x * two.a)
        try:
            one.a = 5
        except dataclasses.FrozenInstanceError as error:
            s.items.append(str(error))
        return (
            s.x,
            s.items,
            one == given,
            one < two,
            repr(two),
            dataclasses.astuple(two),
            hash(one) == hash(given),
        )

    g = run(f)
    return g(X, Frozen(2, (1,))), g(X, Frozen(2)), g(X, Frozen(2, (1,)))


@pytest.mark.parametrize("name", ALL)
def test_odd_classes(hook, name):
    ALL.check(name)


@pytest.mark.parametrize("name", ALL)
def test_odd_classes_with_symbolic_sizes(hook, name):
    ALL.check(name, dynamic=True)
