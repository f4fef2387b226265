"""Habits of users' code: what is sorted beside tensors, named tuples for torch, and what is left to CPython, told."""

import collections
import warnings

import pytest
import torch
from torch import nn

from longhand.errors import EagerWarning
from tests.capture.bytecode.running import Captured, check

State = collections.namedtuple("State", "h c")


def broken(captured):
    """Why a captured function is not one graph."""
    return [event.text for event in captured.events if event.record is not None]


def test_names_with_their_tensors_are_sorted_by_name():
    def function(x, weights):
        return [x * weight if name == "a" else x + weight for name, weight in sorted(weights.items())]

    assert not broken(check(function, (torch.randn(3), {"b": torch.randn(3), "a": torch.randn(3)})))


def test_equal_names_are_pythons_business():
    def function(x):
        return sorted([("a", x * 2), ("a", x + 5)])[0][1] + 1

    assert broken(check(function, (torch.tensor(1.0),), (torch.tensor(9.0),)))


def test_a_named_tuple_is_an_argument_of_a_torch_function():
    cell = nn.LSTMCell(4, 4)

    def function(xs, state):
        for x in xs:
            state = State(*cell(x, state))
        return torch.cat(state), state

    xs, state = torch.randn(3, 2, 4), State(torch.zeros(2, 4), torch.zeros(2, 4))
    with torch.no_grad():
        assert not broken(check(function, (xs, state)))


def test_what_is_left_to_cpython_as_a_whole_is_told():
    def function(x):
        y = x * 2
        assert locals()["y"] is y
        print(end="")
        return y + 1

    run = Captured(function)
    with pytest.warns(EagerWarning, match=r"function.*runs in eager: .*locals"):
        torch.testing.assert_close(run(torch.ones(3)), function(torch.ones(3)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(torch.ones(3))
