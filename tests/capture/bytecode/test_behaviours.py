"""Python and torch behaviours, captured, against eager: results, changed arguments, exceptions; each call twice."""

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
import typing

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from longhand.capture.bytecode.entries import Capture

BEHAVIOURS = {}
X = torch.linspace(-2, 2, 12).reshape(3, 4)
Y = torch.linspace(0.5, 3, 12).reshape(3, 4)


def behaviour(*calls, breaks=0):
    """Registers a function with its calls; `breaks` is how many breaks and skips it may have (None: any)."""

    def register(function):
        BEHAVIOURS[function.__name__] = (function, calls, breaks)
        return function

    return register


def make(function, *calls, breaks=0, name=None):
    BEHAVIOURS[name or function.__name__] = (function, calls, breaks)


# Tensors and operators


@behaviour((X, Y))
def operators(x, y):
    return x + y - 2 * x / y // 1 % 3, -x, x**2, x @ y.T, x < y, ~(x > 0), +x


@behaviour((X, Y))
def inplace_operators(x, y):
    z = x.clone()
    z += y
    z *= 2
    z -= 1
    z /= 3
    return z


@behaviour((X, Y))
def input_is_written(x, y):
    x.add_(y)
    x[0] = 1
    return x * 2


@behaviour((X,))
def view_is_written(x):
    row = x[1]
    row.mul_(10)
    return row, x.sum()


@behaviour((X,))
def returns_its_argument(x):
    y = x + 1
    return x, y, x


@behaviour((X,))
def indexing(x):
    return (
        x[0],
        x[:, 1],
        x[..., None],
        x[1:, ::2],
        x[None],
        x[x.shape[0] - 1],
        x[[0, 2]],
        x[torch.tensor([1, 0])],
    )


@behaviour((X,))
def masks(x):
    return torch.where(x > 0, x, 0.0), x.masked_fill(x < 0, -1.0)


@behaviour((X,))
def shapes(x):
    b, n = x.shape
    return x.view(n, b), x.reshape(-1), x.size(0), x.size(), x.dim(), x.ndim, len(x), x.numel(), x.shape[-1]


@behaviour((X,))
def properties(x):
    return x.T + 1, x.dtype, x.device, x.requires_grad, x.is_cuda, x.mT * 2


@behaviour((X,))
def tensor_methods(x):
    return (
        x.sin().cos().sum(dim=-1, keepdim=True),
        x.max(dim=0),
        x.topk(2),
        x.chunk(2, dim=1),
        x.split([1, 3], dim=1),
    )


@behaviour((X,))
def named_results(x):
    values, indices = x.sort(dim=1)
    best = x.max(1)
    return values, indices, best.values, best.indices


@behaviour((X,))
def conversions(x):
    return x.to(torch.float64), x.half().float(), x.type_as(x.double()), x.long(), x.bool()


@behaviour((X,))
def creation(x):
    return (
        torch.zeros(3) + x.sum(),
        torch.arange(4) * x[0],
        torch.ones_like(x),
        x.new_zeros(2),
        torch.tensor([1.0, 2.0]),
    )


@behaviour((X, Y))
def joining(x, y):
    return (
        torch.cat([x, y]),
        torch.stack((x, y), dim=1),
        torch.einsum("ij,kj->ik", x, y),
        torch.cat([x] * 2, -1),
    )


@behaviour((X,))
def functional(x):
    return F.gelu(x), F.softmax(x, dim=-1), F.layer_norm(x, (4,)), F.pad(x, (1, 1)), F.relu(x, inplace=False)


@behaviour((X,))
def unpacked_rows(x):
    a, b, c = x
    first, *rest = x
    return a + b + c, first, rest


@behaviour((X,))
def loop_over_rows(x):
    total = 0
    for row in x:
        total = total + row.sum()
    return total


@behaviour((X,))
def random_numbers(x):
    return x + torch.rand(3, 4), F.dropout(x, 0.5, training=True), torch.randn_like(x)


@behaviour((X,))
def iteration_with_zip(x):
    return [a * b for a, b in zip(x.unbind(0), range(3), strict=False)]


# Numbers, strings and constants


@behaviour((X, 2), (X, 3), (X, 2.5))
def numbers(x, n):
    return (
        x * n
        + math.sqrt(n)
        + abs(-n)
        + max(n, 2)
        + min(1, n)
        + round(2.6)
        + int(2.7)
        + n % 2
        + divmod(7, 2)[1]
    )


@behaviour((X, "a"), (X, "b"))
def strings(x, mode):
    word = f"{mode}-{1 + 1:03d}-{mode!r}".upper() + "x".join(["p", "q"])
    if mode.startswith("a") and "A" in word:
        return x + 1, word
    return x - 1, word, mode.split("-"), word[1:3], word.replace("-", "_")


@behaviour((X, True), (X, False))
def flags(x, flag):
    return x.sin() if flag else x.cos()


@behaviour((X, None), (X, Y))
def optional(x, other):
    if other is None:
        return x + 1
    return x + other


@behaviour((X, None), (X, 3), (X, "s"), (X, [1]))
def kinds_of_values(x, value):
    if isinstance(value, (int, float)):
        return x + value
    if isinstance(value, str):
        return x.sum(), value
    return x, type(value), value


@behaviour((X,))
def comparisons(x):
    return x + (1 < 2 <= 2), 1 == 1.0, "a" != "b", [1, 2] == [1, 2], (1, 2) < (1, 3), not [], None is None


@behaviour((X,))
def constants(x):
    return x * math.pi, torch.float32, ..., (1, 2), 3 + 4j, b"x", 1e10, float("inf")


@behaviour((X, float("nan")))
def nan_argument(x, n):
    return x + n


@behaviour((X, 0.0), (X, -0.0))
def signed_zero(x, n):
    return x * 0 + math.copysign(1, n)


@behaviour((X, 1), (X, True), (X, 1.0))
def one_true_and_float(x, n):
    return x * n, n, type(n)


# Control flow


@behaviour((X, 0), (X, 3), (X, 7))
def loops(x, n):
    for i in range(n):
        if i == 2:
            continue
        if i == 5:
            break
        x = x + i
    else:
        x = x * 100
    while n > 0:
        x = x - 1
        n -= 1
    return x


@behaviour((X,))
def chained_conditions(x):
    n = x.shape[0]
    return (x + 1) if 0 < n < 5 and (n != 2 or n == 7) else x - 1


@behaviour((X, 5), (X, 15))
def match_statement(x, n):
    match n:
        case 5:
            return x + 5
        case int():
            return x + 1
    return x


@behaviour((X,), breaks=None)
def match_structures(x):
    match {"a": 1, "b": [1, 2]}:
        case {"a": 1, "b": [first, *rest]}:
            return x + first, rest
    return x


@behaviour((X,), (-X - 5,), breaks=None)
def branch_on_data(x):
    y = x * 2 if x.sum() > 0 else x - 100
    return y.cos()


@behaviour((X,), breaks=None)
def while_on_data(x):
    n = 0
    while x.abs().sum() > 1:
        x = x / 2
        n += 1
    return x, n


# Containers


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


# Functions


def helper(a, b=2, *rest, c=3, **more):
    return a * b + c + sum(rest) + sum(more.values())


@behaviour((X,))
def arguments_of_calls(x):
    args, kwargs = (x, 5), {"c": 1, "k": 2}
    return helper(x), helper(x, 3), helper(x, c=7), helper(*args, 1, **kwargs), helper(a=x, z=1)


@behaviour((X, 2), (X, 3))
def closures(x, n):
    def inner(y):
        return y + n

    count = 0

    def counting():
        nonlocal count
        count += 1
        return count

    counting()
    counting()
    return inner(x), count, (lambda y: y * n)(x)


@behaviour((X,))
def returned_functions_work(x):
    def scale(k):
        return lambda y: y * k

    return scale(3)(x), [f(x) for f in [scale(1), scale(2)]]


@behaviour((X, 4))
def recursion(x, n):
    return x if n == 0 else recursion(x + n, n - 1)


def twice(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return wrapper


@twice
def decorated_helper(x):
    return x + 1


@behaviour((X,))
def decorators(x):
    return decorated_helper(x), decorated_helper.__name__


@behaviour((X,))
def partials(x):
    add = functools.partial(torch.add, x)
    scaled = functools.partial(helper, b=10)
    return add(1), scaled(x), functools.partial(scaled, c=0)(x)


@functools.lru_cache
def cached(n):
    return n * 2


@behaviour((X,))
def cached_functions(x):
    return x + cached(3)


GLOBAL_NUMBER = 3
GLOBAL_LIST = [1, 2]
GLOBAL_TENSOR = torch.ones(4)
GLOBAL_DICT = {"a": 1}
GLOBAL_TENSOR_2D = torch.linspace(0, 1, 12).reshape(3, 4)


@behaviour((X,))
def globals_are_read(x):
    return x * GLOBAL_NUMBER + GLOBAL_LIST[1] + GLOBAL_TENSOR


@behaviour((X,))
def generators(x):
    def numbers(n):
        for i in range(n):
            got = yield i
            assert got is None
        return 5

    def delegating():
        last = yield from numbers(2)
        yield last

    return x + sum(numbers(4)), list(delegating()), max(i * 2 for i in range(3))


@behaviour((X,))
def default_arguments(x, n=3, *, m=[1]):  # noqa: B006
    m = [*m, n]
    return x + m[0], m


@behaviour((X,))
def function_attributes(x):
    return x + len(helper.__name__), helper.__name__, callable(helper), callable(3)


# Objects


class Config:
    size = 4
    names: typing.ClassVar = ["a"]

    def __init__(self, scale, **more):
        self.scale = scale
        self.more = more

    @property
    def doubled(self):
        return self.scale * 2

    @staticmethod
    def fixed(n):
        return n + 1

    @classmethod
    def of_size(cls, k):
        return cls(cls.size * k)

    def apply(self, x):
        return x * self.scale


class Special(Config):
    def __init__(self, scale):
        super().__init__(scale + 1)
        self.extra = "e"

    def apply(self, x):
        return super().apply(x) + 1

    def __call__(self, x):
        return self.apply(x)

    def __len__(self):
        return 3

    def __getitem__(self, key):
        return key * 2

    def __contains__(self, key):
        return key == 7

    def __iter__(self):
        return iter([1, 2])

    def __add__(self, other):
        return self.scale + other

    def __radd__(self, other):
        return other - self.scale

    def __eq__(self, other):
        return isinstance(other, Special)

    def __hash__(self):
        return 1


@behaviour((X, Config(3)), (X, Config(4)))
def objects(x, config):
    return (
        config.apply(x),
        config.doubled,
        config.fixed(1),
        config.size,
        Config.size,
        config.names,
        hasattr(config, "no"),
    )


@behaviour((X, Config(3)))
def objects_are_written(x, config):
    config.scale = config.scale + 1
    config.tensor = x + config.scale
    config.more["k"] = x
    return config.tensor * 2


@behaviour((X,))
def objects_are_made(x):
    made = Special(2)
    made.other = x
    return made.apply(x), made(x), made.scale, made.other, isinstance(made, Config), type(made) is Special


@behaviour((X,))
def objects_are_returned(x):
    made = Config(x + 1, a=1)
    made.me = [made.scale]
    return made


@behaviour((X, Special(1)))
def special_methods(x, s):
    return len(s), s[3], 7 in s, list(s), s + 1, 10 + s, s == Special(5), s != 3, bool(s), s(x), [*s]


@behaviour((X,))
def class_methods(x):
    return Config.of_size(2).apply(x), Config.size, Config.fixed(3)


@dataclasses.dataclass
class Options:
    rate: float = 0.5
    names: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.inverse = 1 / self.rate


@dataclasses.dataclass(frozen=True)
class Frozen:
    value: int
    tensor: torch.Tensor | None = None


@behaviour((X, Options(0.25)))
def dataclass_objects(x, options):
    made = Options(rate=2.0)
    made.names.append("n")
    return x * options.rate, made, made.inverse + options.inverse, Frozen(3).value, Options() == Options()


class Color(enum.Enum):
    RED = 1
    BLUE = "b"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@behaviour((X, Color.RED, Level.LOW), (X, Color.BLUE, Level.HIGH))
def enums(x, color, level):
    if color is Color.RED:
        x = x + color.value
    return x * level, color.name, level == 1, color == Color.BLUE, Color("b"), {Color.RED: 1}[Color.RED]


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


@behaviour((X,))
def slots(x):
    made = Slotted(x)
    made.b = 2
    return made.a + made.b, hasattr(made, "b")


class Dynamic:
    def __init__(self):
        self.known = 1

    def __getattr__(self, name):
        if name.startswith("get_"):
            return len(name)
        raise AttributeError(name)


@behaviour((X, Dynamic()))
def getattr_hooks(x, d):
    return x + d.known + d.get_it, getattr(d, "nothing", 5), hasattr(d, "nothing")


class Recorder:
    def __init__(self):
        object.__setattr__(self, "log", [])

    def __setattr__(self, name, value):
        self.log.append(name)
        object.__setattr__(self, name, value)


@behaviour((X, Recorder()))
def setattr_hooks(x, r):
    r.a = x + 1
    r.b = 2
    return r.log, r.a


class Output(collections.OrderedDict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def to_tuple(self):
        return tuple(self[k] for k in self.keys())


@behaviour((X,))
def dict_subclasses(x):
    made = Output()
    made["logits"] = x + 1
    made["loss"] = x.sum()
    return made, made.logits * 2, made.to_tuple(), len(made), "loss" in made


class Descriptor:
    def __get__(self, instance, owner):
        return 5 if instance is None else instance.base + 1


class WithDescriptor:
    value = Descriptor()

    def __init__(self):
        self.base = 3


@behaviour((X, WithDescriptor()))
def descriptors(x, w):
    return x + w.value


class Lazy:
    @functools.cached_property
    def table(self):
        return torch.ones(4) * 2


@behaviour((X, Lazy()))
def cached_properties(x, lazy):
    return x * lazy.table, x + lazy.table


# Exceptions


@behaviour((X, "a"), (X, "zz"))
def exceptions_are_caught(x, key):
    try:
        value = {"a": 1}[key]
    except KeyError:
        value = 100
    else:
        value += 1
    finally:
        x = x + 1000
    return x * value


@behaviour((X,))
def raised_and_caught(x):
    try:
        raise ValueError("no", 3)
    except (TypeError, ValueError) as error:
        x = x + error.args[1]
    try:
        [][1]
    except IndexError:
        x = x * 2
    try:
        x.nothing_here  # noqa: B018
    except AttributeError:
        x = x - 1
    return x


class Mine(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.code = code


@behaviour((X,))
def own_exceptions(x):
    def fails():
        raise Mine(7)

    try:
        fails()
    except Mine as error:
        return x + error.code
    return x


@behaviour((X, 1), (X, 0), breaks=None)
def uncaught_exceptions(x, n):
    y = x + 1
    if n == 0:
        raise ValueError(f"n is {n}")
    return y


@behaviour((X,), breaks=None)
def wrong_shapes(x):
    return x @ x


@behaviour((X,), breaks=None)
def wrong_shapes_are_caught(x):
    try:
        return x @ x
    except RuntimeError:
        return x + 1


@behaviour((X, 3), (X, -3), breaks=None)
def assertions(x, n):
    assert n > 0, "n must be positive"
    return x * n


@behaviour((X,), breaks=None)
def zero_division(x):
    y = x + 1
    return y, 1 / 0


@behaviour((X,))
def finally_runs_on_return(x):
    log = []

    def inner():
        try:
            return x + 1
        finally:
            log.append("done")

    return inner(), log


@behaviour((X,))
def exceptions_through_functions(x):
    def level(n):
        if n == 0:
            raise KeyError("deep")
        try:
            return level(n - 1)
        except ValueError:
            return 1

    try:
        level(3)
    except KeyError as error:
        return x + 1, error.args
    return x


# Context managers


@behaviour((X.clone().requires_grad_(),))
def grad_modes(x):
    with torch.no_grad():
        a = x * 2
    b = x * 3
    with torch.no_grad(), torch.enable_grad():
        c = x * 4
    with torch.set_grad_enabled(False):
        d = x * 5
    return a, b, c, d, torch.is_grad_enabled()


@torch.no_grad()
def without_gradients(x):
    return x * 2


@behaviour((X.clone().requires_grad_(),))
def no_grad_decorator(x):
    return without_gradients(x), x * 2


class Manager:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        return 5

    def __exit__(self, kind, value, trace):
        self.log.append(kind.__name__ if kind else "exit")
        return kind is ValueError


@behaviour((X, []))
def own_context_managers(x, log):
    with Manager(log) as n:
        x = x + n
    with Manager(log):
        raise ValueError("swallowed")
    return x * 2


@contextlib.contextmanager
def managed(log):
    log.append("in")
    try:
        yield 3
    finally:
        log.append("out")


@behaviour((X, []))
def generator_context_managers(x, log):
    with managed(log) as n:
        x = x + n
    with contextlib.nullcontext(4) as m:
        x = x * m
    return x, log


# Breaks


@behaviour((X,), breaks=None)
def print_in_the_middle(x):
    y = x + 1
    print("middle", end="")
    return y * 2


@behaviour((X, [1]), breaks=None)
def break_with_everything_alive(x, given):
    y, n, t = x + 1, 3, ("t", x)
    given.append(y)
    made = {"k": [y, n]}
    print("", end="")
    made["k"].append(given)
    return y * n, t, made, given


@behaviour((X,), breaks=None)
def break_in_a_loop(x):
    for i in range(3):
        x = x + i
        print("", end="")
    return x * 2


@behaviour((X,), breaks=None)
def break_in_a_call(x):
    def inner(y):
        y = y * 2
        print("", end="")
        return y + 1

    return inner(x) + inner(x + 1)


@behaviour((X, []), breaks=None)
def break_in_with(x, log):
    with Manager(log) as n:
        x = x + n
        print("", end="")
        return x * 2


@behaviour((X.clone().requires_grad_(),), breaks=None)
def break_in_no_grad(x):
    with torch.no_grad():
        a = x * 2
        print("", end="")
        b = x * 3
    return a, b, x * 4, torch.is_grad_enabled()


@behaviour((X,), breaks=None)
def break_in_try(x):
    log = []
    try:
        y = x + 1
        print("", end="")
        y = y * 2
        {}["missing"]
    except KeyError:
        log.append("caught")
    finally:
        log.append("finally")
    return y, log


@behaviour((X,), breaks=None)
def the_breaking_call_raises(x):
    y = x + 1
    try:
        int("not a number", base=len(str(x.sum().item())) * 0 + 10)
    except ValueError:
        y = y * 2
    return y + 1


@behaviour((X,), breaks=None)
def item_in_the_middle(x):
    n = x.sum().item()
    return x + n, round(n, 3)


@behaviour((X,), breaks=None)
def tolist_in_the_middle(x):
    return [v * 2 for v in (x + 1)[0].tolist()], x * 2


@behaviour((X,), breaks=None)
def break_in_an_argument(x):
    def noisy(y):
        print("", end="")
        return y + 1

    return helper(x, noisy(x).sum().item(), c=noisy(x)) + 1


@behaviour((X, 2), breaks=None)
def break_with_cells(x, n):
    total = x

    def add(k):
        nonlocal total
        total = total + k * n

    add(1)
    print("", end="")
    add(2)
    n = 5
    add(3)
    return total


@behaviour((X,), breaks=None)
def break_in_a_comprehension(x):
    return [x + len(repr(x.sum().item())) * 0 + i for i in range(3)]


@behaviour((X,), breaks=None)
def break_in_a_condition(x):
    y = x + 1
    return y if x.sum().item() > -1000 and y.sum() < 1e9 else y * 3


@behaviour((X,), breaks=None)
def break_in_string_formatting(x):
    y = x * 2
    return f"{y.sum().item():.2f} {y.shape[0]}", y + 1


@behaviour((X, Config(2)), breaks=None)
def break_after_attribute_writes(x, config):
    config.scale = x + 1
    print("", end="")
    config.other = config.scale * 2
    return config.other


class Base:
    def __init__(self, x):
        self.base = x + 1

    def result(self, x):
        return x * 2


class Noisy(Base):
    def __init__(self, x):
        y = x * 3
        print("", end="")
        super().__init__(y)
        self.later = [y]

    def result(self, x):
        x = x + 1
        print("", end="")
        inner = lambda: self.base  # noqa: E731
        return super().result(x) + inner()


@behaviour((X,), breaks=None)
def break_before_super(x):
    made = Noisy(x)
    return made, made.result(x)


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * k

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.k, None


@behaviour((X, 2))
def autograd_functions(x, k):
    return Doubling.apply(x, k) + 1


@behaviour((X.clone().requires_grad_(), 2), breaks=None)
def autograd_functions_with_gradients(x, k):
    return Doubling.apply(x, k) + 1


@behaviour((X,), breaks=None)
def nested_loops_with_breaks(x):
    for i in range(2):
        for j in [1, 2]:
            x = x + i * j
            if x.sum() > 1e6:
                break
    return x


# Modules


class Block(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.first = nn.Linear(width, 8)
        self.norm = nn.LayerNorm(8)
        self.second = nn.Linear(8, width)
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("count", torch.zeros(()))
        self.calls = 0

    def forward(self, x, *, factor=1.0):
        h = F.gelu(self.norm(self.first(x)))
        return x + self.scale * self.second(h) * factor


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.named = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Identity()})
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(4))])

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = block(x, factor=i + 1)
        for key, module in self.named.items():
            x = module(x) if key in self.named else x
        return self.seq(x) * self.weights[0] + len(self.blocks) + self.blocks[-1].scale


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
        self.calls = 0
        self.last = None

    def forward(self, x):
        self.calls += 1
        self.seen.add_(x.sum(0))
        self.last = x.mean()
        if self.training:
            x = x * 2
        return x + self.seen


class Replacing(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(4))

    def forward(self, x):
        self.table = self.table + x[0]
        return x * self.table


def seeded(kind):
    torch.manual_seed(0)
    return kind()


def call_module(module, x):
    return module(x)


with_modules = [
    (seeded(Block), X),
    (seeded(Block).eval(), X),
]
make(call_module, *with_modules, name="a_module")
make(call_module, (seeded(Stack), X), name="containers_of_modules")
make(call_module, (seeded(Counting), X), (seeded(Counting).eval(), X), name="state_of_modules", breaks=None)
make(call_module, (seeded(Replacing), X), name="buffers_are_replaced")
make(
    call_module,
    (nn.Sequential(nn.Conv1d(3, 2, 3, padding=1), nn.BatchNorm1d(2), nn.ReLU()).eval(), X[None]),
    (nn.Sequential(nn.Conv1d(3, 2, 3, padding=1), nn.BatchNorm1d(2), nn.ReLU()).train(), X[None]),
    name="convolution_and_batch_norm",
    breaks=None,
)
make(
    call_module,
    (nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True).train(), X[None]),
    name="encoder_layer",
    breaks=None,
)
make(
    call_module,
    (nn.MultiheadAttention(4, 2, batch_first=True).train(), X[None]),
    name="wrong_module_call",
    breaks=None,
)
make(call_module, (nn.Dropout(0.5), X), (nn.Dropout(0.5).eval(), X), name="dropout", breaks=None)
make(call_module, (nn.Embedding(10, 4), torch.tensor([[1, 2]])), name="embedding")
make(call_module, (nn.GRU(4, 3, batch_first=True), X[None]), name="recurrent", breaks=None)


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.inner.register_forward_hook(double_output)

    def forward(self, x):
        return self.inner(x) + 1


def double_output(module, args, output):
    return output * 2


make(call_module, (seeded(Hooked), X), name="forward_hooks", breaks=None)


@behaviour((seeded(Block), X))
def modules_are_inspected(module, x):
    total = 0
    for name, parameter in module.named_parameters():
        if "weight" in name:
            total = total + parameter.sum()
    names = [name for name, _ in module.named_children()]
    return x + total, names, module.training, sum(1 for _ in module.parameters()), len(list(module.modules()))


@behaviour((X,))
def type_checks(x):
    return (
        isinstance(x, torch.Tensor),
        isinstance(3, int),
        isinstance(nn.ReLU, type),
        issubclass(nn.ReLU, nn.Module),
        x.is_floating_point(),
        torch.is_tensor(x),
        type(x) is torch.Tensor,
        x + 1,
    )


@behaviour((X,))
def torch_state(x):
    return (
        x + torch.finfo(x.dtype).eps,
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.jit.is_scripting(),
    )


@behaviour((X,))
def devices_and_types(x):
    y = torch.zeros(2, dtype=x.dtype, device=x.device)
    return y + 1, x.device.type, torch.device("cpu") == x.device, x.dtype.is_floating_point


@behaviour((X,))
def copies(x):
    a = [1, [2]]
    b = copy.copy(a)
    b.append(x)
    return a, b, x + 1


@behaviour((X, [X, X]))
def same_tensor_twice(x, pair):
    pair[0].add_(1)
    return pair[1] * 2, pair[0] is pair[1]


@behaviour((X,))
def operators_as_functions(x):
    return (
        operator.mul(x, 2),
        operator.itemgetter(1)([1, 2]) if False else operator.getitem([1, 2], 1),
        operator.eq(1, 1),
    )


SHARED_LIST = [1]
SHARED_CONFIG = Config(3)


@behaviour((X, [1], [1]), (X, SHARED_LIST, SHARED_LIST))
def two_lists_that_may_be_one(x, a, b):
    a.append(2)
    return x + len(b), len(a)


@behaviour((X, {"a": 1}, {"a": 1}), (X, GLOBAL_DICT, GLOBAL_DICT))
def two_dicts_that_may_be_one(x, a, b):
    a["a"] = 5
    return x + b["a"]


@behaviour((X, Config(3), Config(3)), (X, SHARED_CONFIG, SHARED_CONFIG))
def two_objects_that_may_be_one(x, a, b):
    a.scale = 10
    return x + b.scale


@behaviour((X, X + 1), (GLOBAL_TENSOR_2D, GLOBAL_TENSOR_2D))
def two_tensors_that_may_be_one(x, y):
    x.add_(1)
    return y * 2


@behaviour((X, X + 1), (GLOBAL_TENSOR_2D, GLOBAL_TENSOR_2D[1:]))
def two_tensors_that_may_overlap(x, y):
    x.add_(1)
    return y * 2


@behaviour(
    (X, torch.ones(3, 4), 1),
    (X.double(), torch.ones(3, 4), 1),
    (X.T, torch.ones(4, 3), 1),
    (X[:2], torch.ones(4), 2),
)
def other_types_and_layouts(x, y, n):
    return x * y + n


@behaviour((X,), (X.clone().requires_grad_(),))
def gradients_are_wanted(x):
    return (x * 2).sum()


@behaviour((X,))
def imports_inside(x):
    import math as m  # noqa: I001
    from torch.nn import functional as f

    return f.relu(x) * m.pi


@behaviour((X, 3))
def walrus_and_chains(x, n):
    if (m := n * 2) > 5:
        x = x + m
    a = b = [x]
    a.append(1)
    return b, a is b


@behaviour((X,))
def string_keys_and_formats(x):
    parts = {"a": 1, "b": 2}
    text = ", ".join(f"{k}={v:>3}" for k, v in parts.items())
    return (
        x,
        text,
        "%s-%d" % ("p", 3),  # noqa: UP031
        "{}:{}".format(1, "z"),
        "abc"[::-1],
        ["a", "b"],
        str(3.5),
        repr("q"),
    )


@behaviour((X,))
def star_expressions(x):
    def count(*args, **kwargs):
        return len(args) + 10 * len(kwargs)

    return x + count(*[1, 2], *(3,), a=1, b=2), {"a": 1, "b": 2}, [*range(3)], (*"ab",)


@pytest.mark.parametrize("name", list(BEHAVIOURS))
def test_behaviour(hook, running, name, capsys):
    function, calls, breaks = BEHAVIOURS[name]
    captured = running.check(function, *calls)
    capsys.readouterr()
    found = [event.text for event in captured.events if event.kind.value in ("break", "skip")]
    assert not [text for text in found if "capture itself failed" in text], found
    if breaks is not None:
        assert len(found) <= breaks, found


def test_fullgraph_names_the_break(hook, running):
    from_capture = running.outcome(running.Captured(print_in_the_middle, fullgraph=True), (X,))
    assert from_capture[0] == "raises" and "print() writes" in from_capture[2] and __file__ in from_capture[2]


def test_a_capture_is_a_plain_object(hook):
    assert Capture(lambda module, inputs: module.forward).codes == {}
