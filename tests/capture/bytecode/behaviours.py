"""A register of behaviours: functions with calls, each checked against eager under several settings."""

import contextlib
import io
import typing

import torch

from tests.capture.bytecode.running import check

X = torch.linspace(-2, 2, 12).reshape(3, 4)
Y = torch.linspace(0.5, 3, 12).reshape(3, 4)


class Behaviours(dict):
    """name -> (function, calls, how many breaks it may have)."""

    def behaviour(self, *calls, breaks=0):
        """Registers a function with its calls; `breaks` is how many breaks and skips it may have (None: any)."""

        def register(function):
            self.make(function, *calls, breaks=breaks)
            return function

        return register

    def make(self, function, *calls, breaks=0, name=None):
        name = name or function.__name__
        assert name not in self, f"two behaviours are called {name}"
        self[name] = (function, calls, breaks)

    def check(self, name):
        """Each call twice, then with other types and sizes; the same with symbolic sizes from the start."""
        function, calls, breaks = self[name]
        with contextlib.redirect_stdout(io.StringIO()):
            captured = check(function, *calls)
            others = check(function, *calls, *map(doubled, calls), *map(longer, calls), most_entries=64)
            symbolic = check(function, *map(longer, calls), *calls, dynamic=True, most_entries=64)
        for one in (captured, others, symbolic):
            texts = [event.text for event in one.events if event.kind.value in ("break", "skip")]
            assert not [text for text in texts if "capture itself failed" in text], texts
        found = [event.text for event in captured.events if event.kind.value in ("break", "skip")]
        if breaks is not None:
            assert len(found) <= breaks, found


def _plain(value):
    return type(value) is torch.Tensor and not value.requires_grad


def doubled(call):
    """The call with float64 for float32."""
    return tuple(v.double() if _plain(v) and v.dtype is torch.float32 else v for v in call)


def longer(call):
    """The call with twice as many rows."""
    return tuple(torch.cat([v, v + 1]) if _plain(v) and v.dim() > 1 else v for v in call)


# What several topics use


def helper(a, b=2, *rest, c=3, **more):
    return a * b + c + sum(rest) + sum(more.values())


GLOBAL_DICT = {"a": 1}


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


class Manager:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        return 5

    def __exit__(self, kind, value, trace):
        self.log.append(kind.__name__ if kind else "exit")
        return kind is ValueError
