"""The classes and functions that the widest random programs use."""

PRELUDE = """
import contextlib
import enum
import random
import types
import numpy as np

@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: int = 0
    tags: list = dataclasses.field(default_factory=list, compare=False)
    seen: int = dataclasses.field(default=0, init=False)

    def __post_init__(self):
        self.seen = self.x + self.y

@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: object = None

class Pair(collections.namedtuple("Pair", "left right")):
    def swapped(self):
        return self._replace(left=self.right, right=self.left)

class Color(enum.Enum):
    RED = 1
    BLUE = 2

class Celsius:
    def __init__(self, name):
        self.name = name

    def __get__(self, owner, kind=None):
        return self if owner is None else owner.__dict__.get("_" + self.name, 0)

    def __set__(self, owner, value):
        owner.__dict__["_" + self.name] = value

class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a

class Vector:
    heat = Celsius("heat")
    made = 0

    def __init__(self, data):
        self.data = data
        type(self).made = type(self).made

    def __add__(self, other):
        return Vector(self.data + getattr(other, "data", other))

    __radd__ = __add__

    def __iadd__(self, other):
        self.data = self.data + other
        return self

    def __mul__(self, k):
        if isinstance(k, Vector):
            return NotImplemented
        return Vector(self.data * k)

    def __neg__(self):
        return Vector(-self.data)

    def __bool__(self):
        return self.heat > 1

    def __call__(self, k=1, *, scale=2):
        return self.data * k + scale

    def __contains__(self, k):
        return k == self.heat

    def __lt__(self, other):
        return self.heat < other.heat

    @property
    def first(self):
        return self.data[0]

    @first.setter
    def first(self, value):
        self.data[0] = value

    @functools.cached_property
    def norm(self):
        STATE.append("norm")
        return self.data.abs().sum()

class Count:
    def __init__(self, n):
        self.n = n
        self.i = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.i >= self.n:
            raise StopIteration
        self.i += 1
        return self.i

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((3, 3), 0.5), requires_grad=False)
        self.register_buffer("steps", torch.zeros(()))
        self.calls = 0
        self.inner = torch.nn.ModuleList([torch.nn.Tanh(), torch.nn.Identity()])

    def forward(self, x, k=1):
        self.steps += 1
        self.calls += 1
        for layer in self.inner:
            x = layer(x)
        return x * self.weight[0, 0] + k if self.training else x - self.steps

@contextlib.contextmanager
def scoped(log, name, swallows=False):
    log.append("enter " + name)
    try:
        yield name
    except ValueError:
        log.append("caught")
        if not swallows:
            raise
    finally:
        log.append("leave " + name)

def counted(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        return function(*args, **kwargs)
    wrapper.calls = 0
    return wrapper

def chained(k):
    got = yield k
    yield got
    inner = yield from (v for v in range(k))
    return inner

def walk(k):
    if k > 0:
        yield k
        yield from walk(k - 1)

TOTAL = 0
"""
