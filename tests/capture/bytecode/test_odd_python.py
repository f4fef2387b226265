"""Python's corners: causes of exceptions, finally with return, nested with, match, walrus, spreads, keys, numbers."""

import collections
import contextlib
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
def exceptions_with_causes(run):
    def f(x, k):
        try:
            if k == 0:
                raise ValueError("first", x.shape[0])
            return x * {1: 2}[k]
        except KeyError as error:
            raise RuntimeError("second") from error
        except ValueError as error:
            raise TypeError("third") from None
        finally:
            log.append(k)

    log = []
    g = run(f)
    return [tell(g, X, k) for k in (0, 1, 2, 1, 0, 2)], log


@ALL.scenario
def exceptions_read_in_their_handlers(run):
    def f(x):
        seen = []
        try:
            try:
                raise KeyError("k")
            except KeyError as error:
                raise ValueError("v") from error
        except ValueError as error:
            seen.append((str(error), repr(error.__cause__), error.__suppress_context__))
            seen.append(error.__context__ is error.__cause__)
        try:
            try:
                raise KeyError("k")
            except KeyError:
                raise ValueError("w")  # noqa: B904
        except ValueError as error:
            seen.append((repr(error.__context__), error.__cause__, error.args))
        return x + len(seen), seen

    return run(f)(X), run(f)(X)


@ALL.scenario
def errors_of_the_users_own(run):
    class Problem(Exception):
        def __init__(self, code, *rest):
            super().__init__(code, *rest)
            self.code = code

        def __str__(self):
            return f"problem {self.code}"

    def f(x, k):
        try:
            if k:
                raise Problem(k, "more")
        except Problem as problem:
            return x * problem.code, str(problem), problem.args
        else:
            x = x + 1
        return x

    g = run(f)
    return g(X, 2), g(X, 0), g(X, 3)


@ALL.scenario
def finally_that_returns(run):
    def f(x, k):
        for i in range(3):
            try:
                if i == k:
                    raise ValueError(i)
                if i == 2:
                    return x * 10
            except ValueError:
                return x * 20
            finally:
                if k == 5:
                    return x * 30  # noqa: B012
                if k == 6:
                    continue  # noqa: B012
                if k == 7:
                    break  # noqa: B012
        return x * 40

    g = run(f)
    return [g(X, k) for k in (0, 1, 2, 5, 6, 7, 9)]


@ALL.scenario
def names_that_except_deletes(run):
    def f(x):
        error = 3
        try:
            raise ValueError("a")
        except ValueError as error:
            x = x + len(str(error))
        return x + error

    return tell(run(f), X)


@ALL.scenario
def with_blocks_in_with_blocks(run):
    class Manager:
        def __init__(self, name, swallows=()):
            self.name, self.swallows = name, swallows

        def __enter__(self):
            log.append(("enter", self.name))
            if self.name == "bad":
                raise RuntimeError("enter")
            return self

        def __exit__(self, kind, error, trace):
            log.append(("exit", self.name, kind and kind.__name__, str(error)))
            if self.name == "worse":
                raise LookupError("exit") from error
            return kind is not None and issubclass(kind, self.swallows)

    def f(x, names, raised):
        with Manager("outer", (KeyError, RuntimeError)) as one, Manager(names[0]) as two:
            with Manager(names[1], ValueError):
                x = x * 2
                if raised is not None:
                    raise raised("r")
                x = x + 1
            x = x * 3
            return x, one.name, two.name
        return x - 1, "swallowed"

    log, g = [], run(f)
    calls = [
        (("a", "b"), None),
        (("a", "b"), ValueError),
        (("a", "b"), KeyError),
        (("bad", "b"), None),
        (("a", "bad"), None),
        (("worse", "b"), TypeError),
        (("a", "worse"), None),
        (("a", "b"), IndexError),
    ]
    return [tell(g, X, *call) for call in calls], log


@ALL.scenario
def managers_from_contextlib(run):
    @contextlib.contextmanager
    def scaled(k):
        log.append("in")
        try:
            yield k * 2
        except ValueError:
            log.append("caught")
        finally:
            log.append("out")

    def f(x, k):
        with contextlib.ExitStack() as stack, contextlib.suppress(KeyError):
            y = stack.enter_context(scaled(k))
            x = x * y
            if k == 2:
                raise ValueError("v")
            if k == 3:
                raise KeyError("k")
            if k == 4:
                raise TypeError("t")
            with contextlib.nullcontext(5) as five:
                x = x + five
        return x

    log, g = [], run(f)
    return [tell(g, X, k) for k in (1, 2, 3, 4)], log


@ALL.scenario
def a_decorated_manager(run):
    @contextlib.contextmanager
    def logged():
        log.append("in")
        yield
        log.append("out")

    @logged()
    def h(x):
        return x * 2

    log = []
    g = run(lambda x: h(h(x)) + 1)
    return g(X), g(X), log


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
def numbers_that_raise(run):
    def f(x, a, b):
        seen = []
        for op in (operator.floordiv, operator.truediv, operator.mod, operator.pow, operator.lshift, divmod):
            try:
                seen.append(op(a, b))
            except (ZeroDivisionError, ValueError, TypeError, OverflowError) as error:
                seen.append(type(error).__name__)
        return x, seen

    g = run(f)
    return [
        g(X, a, b) for a, b in ((7, 0), (7, -2), (-7, 2), (0, -1), (2.5, 0), (True, 3), (-8, 0.5), (1j, 2))
    ]


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
def recursion_and_mutual_calls(run):
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    def f(x, n):
        def power(k):
            return x if k == 0 else power(k - 1) * 2

        return power(n), even(n)

    g = run(f)
    return g(X, 3), g(X, 6), g(X, 3)


@ALL.scenario
def deleted_and_unset_names(run):
    def f(x, k):
        if k > 0:
            y = x * k
        if k > 1:
            del x
        try:
            z = y
        except UnboundLocalError as error:
            z = str(error)
        try:
            return z, x
        except NameError as error:
            return z, type(error).__name__

    g = run(f)
    return g(X, 0), g(X, 1), g(X, 2)


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


@ALL.scenario
def printing_in_the_middle(run):
    def f(x, items):
        print("start", len(items))
        for i, item in enumerate(items):
            x = x * 2 + item
            if i % 2:
                print("at", i, item)
        print("end", end="!\n")
        return x

    g = run(f)
    return g(X, [1, 2, 3, 4]), g(X, [1, 2, 3, 4]), g(X, [])


@pytest.mark.parametrize("name", ALL)
def test_odd_python(hook, name):
    ALL.check(name)


@pytest.mark.parametrize("name", ALL)
def test_odd_python_with_symbolic_sizes(hook, name):
    ALL.check(name, dynamic=True)
