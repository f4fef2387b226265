"""Classes, attributes, descriptors, dataclasses, enums, captured, against eager."""

import collections
import dataclasses
import enum
import functools

import pytest
import torch

from tests.capture.bytecode import running
from tests.capture.bytecode.behaviours import Behaviours, Config, X

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


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


@functools.total_ordering
class Ordered:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __lt__(self, other):
        return self.n < other.n


@behaviour((X,), breaks=None)
def ordered_objects(x):
    a, b = Ordered(1), Ordered(2)
    return x, a < b, a >= b, a != b, max(a, b).n, sorted([b, a])[0].n


@behaviour((X, Config(2)))
def an_attribute_is_set_and_deleted_again(x, config):
    config.extra = 3
    y = x * config.extra
    del config.extra
    return y, hasattr(config, "extra"), sorted(vars(config))


def deleted_attribute(x, config):
    config.extra = 3
    del config.extra
    return x + 1, hasattr(config, "extra")


def test_an_attribute_that_was_there_is_deleted_too(hook):
    other = Config(2)
    other.extra = 1
    running.check(deleted_attribute, (X, Config(2)), (X, other))


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
