"""What Python's library and torch make of objects: copies, weak references, and what stands for a tensor."""

import copy
import weakref

import pytest
import torch
from torch.overrides import is_tensor_like

from tests.capture.bytecode.behaviours import Behaviours, X

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


class Settings:
    def __init__(self, n):
        self.n, self.names = n, ["a"]

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value * 2 if name == "n" else value)


class Slotted:
    __slots__ = ("n",)


class CopiesItself(Settings):
    def __copy__(self):
        return CopiesItself(7)


SLOTTED = Slotted()
SLOTTED.n = 4


@behaviour((X, Settings(3)))
def copies_of_what_comes_from_outside(x, settings):
    made = copy.copy(settings)
    made.n = 5
    made.names.append("b")
    made.__dict__.pop("names")
    return x * made.n + settings.n, settings.names, made, type(made) is Settings, made is settings


@behaviour((X, CopiesItself(3)), breaks=None)
def copies_in_ways_of_their_own(x, settings):
    return x * copy.copy(settings).n, copy.copy(SLOTTED).n


class Paired:
    def __init__(self, n):
        self.n, self._pair = n, None

    @property
    def pair(self):
        pair = self._pair() if self._pair is not None else None
        if pair is None:
            pair = Paired(-self.n)
            self._pair = weakref.ref(pair)
        return pair


@behaviour((X,))
def weak_references_to_what_is_made(x):
    one = Paired(3)
    pair = one.pair
    again = one.pair
    refs = weakref.ref(pair) is one._pair, isinstance(one._pair, weakref.ref), bool(one._pair)
    return x * pair.n + one.n, again is pair, refs, one._pair() is pair, type(one._pair) is weakref.ref, pair


@behaviour((X,), breaks=None)
def a_weak_reference_that_is_a_result(x):
    one = Paired(3)
    pair = one.pair
    x = x + 1
    print("", end="")
    return x * 2, one._pair() is pair, pair.n


class Owner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.ReLU()
        self.references = [weakref.ref(self.inner)]

    def forward(self, x):
        return self.references[0]()(x) if self.references[0]() is self.inner else x


OWNER = Owner()


@behaviour((X,))
def weak_references(x):
    return OWNER(x)


class LikeATensor:
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return "its own"


@behaviour((X,))
def what_is_like_a_tensor(x):
    return tuple(is_tensor_like(value) for value in (x, x + 1, 2, 2.0, None, [x], LikeATensor(), LikeATensor))


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
