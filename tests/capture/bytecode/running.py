"""Runs a behaviour in eager and captured, and compares everything that can be seen."""

import collections
import copy
import dataclasses

import numpy as np
import torch

from longhand.capture.bytecode.entry.entries import Capture


class Captured:
    """A function behind its own capture, with graphs that run in eager; `events` is what capture told."""

    def __init__(self, function, **options):
        self.function = function
        self.events = []
        self.capture = Capture(lambda module, inputs: module.forward, listener=self.events.append, **options)

    def __call__(self, *args, **kwargs):
        return self.capture.call(self.function, args, kwargs)

    def count(self, kind):
        return sum(event.kind.value == kind for event in self.events)


def outcome(function, args, kwargs=None):
    """('value', result) or ('raises', type, message)."""
    try:
        return "value", function(*args, **(kwargs or {}))
    except Exception as error:
        return "raises", type(error), str(error)


def assert_same(got, expected, where="result"):
    """Equal in type, value and structure; tensors exactly, with dtype and strides."""
    if isinstance(expected, torch.Tensor):
        assert isinstance(got, torch.Tensor), where
        assert type(got) is type(expected), where
        assert got.dtype == expected.dtype and got.shape == expected.shape, where
        assert got.requires_grad == expected.requires_grad and got.stride() == expected.stride(), where
        assert torch.equal(torch.nan_to_num(got), torch.nan_to_num(expected)), where
        return
    assert type(got) is type(expected), f"{where}: {type(got)} is not {type(expected)}"
    if isinstance(expected, dict):
        assert list(got) == list(expected), where
        for key in expected:
            assert_same(got[key], expected[key], f"{where}[{key!r}]")
    elif isinstance(expected, list | tuple | collections.deque):
        assert len(got) == len(expected), where
        for position, (one, other) in enumerate(zip(got, expected, strict=True)):
            assert_same(one, other, f"{where}[{position}]")
    elif isinstance(expected, np.ndarray):
        assert got.dtype == expected.dtype and np.array_equal(got, expected), where
    elif isinstance(expected, float) and expected != expected:
        assert got != got, where
    elif isinstance(expected, torch.nn.Module):
        assert_same(dict(got.state_dict()), dict(expected.state_dict()), where)
        assert_same(plain_attributes(got), plain_attributes(expected), where)
    elif dataclasses.is_dataclass(expected) or (
        type(expected).__eq__ is object.__eq__ and hasattr(expected, "__dict__")
    ):
        if not callable(expected):
            assert_same(vars(got), vars(expected), where)
    else:
        assert got == expected, f"{where}: {got!r} is not {expected!r}"


def plain_attributes(module):
    return {key: value for key, value in vars(module).items() if not key.startswith("_")}


def check(function, *calls, **options):
    """Each call (a tuple of arguments) twice, against eager on copies of the arguments. Returns what was captured."""
    captured = Captured(function, **options)
    for args in calls:
        for _ in range(2):
            mine, theirs = copy.deepcopy(args), copy.deepcopy(args)
            torch.manual_seed(3)
            expected = outcome(function, theirs)
            torch.manual_seed(3)
            got = outcome(captured, mine)
            assert got[0] == expected[0], f"{got} is not {expected}"
            if got[0] == "raises":
                assert got[1:] == expected[1:], f"{got} is not {expected}"
            else:
                assert_same(got[1], expected[1])
            assert_same(mine, theirs, "arguments")
    return captured
