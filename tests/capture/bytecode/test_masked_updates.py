"""Statements that change the masked part of a tensor: no break where the number of elements stays inside."""

import pytest
import torch

from tests.capture.bytecode.behaviours import Behaviours, X
from tests.capture.bytecode.running import Captured

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


@behaviour((X,))
def a_number_is_added(x):
    y = x.clone()
    y[y > 0] += 1
    y[y.sum(1) < 0] *= 0.5  # of fewer dimensions
    y[y != y] -= 1  # nothing
    return y


@behaviour((X,))
def whole_numbers(x):
    n = (x * 10).long()
    by = 3
    n[n > 2] //= by
    n[n < 0] %= 5
    n[n == 1] <<= 2
    n[n == 4] |= 1
    return n


@behaviour((X,))
def other_views_see_it(x):
    y = x.clone()
    top, again = y[:2], y
    top[top > 0] -= 2
    return y, again


@behaviour((X,))
def the_argument_is_changed(x):
    x[x > 0] += 1
    return x * 2


@behaviour((X,), breaks=None)
def what_is_more_than_a_number(x):
    y = x.clone()
    n = y.long()
    y[y > 0] += y.sum()
    y[y < 0] **= 2
    part = y[y > 1]
    part += 1
    y[y > 1] = y[y > 1] + 1
    try:
        n[n > 5] += 0.5
    except RuntimeError:
        y = y + 1
    try:
        n[n > -99] //= 0
    except RuntimeError:
        y = y + 1
    return y, part


@behaviour((X,), breaks=None)
def a_mask_that_is_changed(x):
    flags = x > 1
    flags[x > 1.5] ^= True
    flags[flags] ^= True
    return flags


@behaviour((X,), breaks=None)
def a_mask_of_another_size(x):
    y = x.clone()
    try:
        y[torch.ones(1, 1, dtype=torch.bool)] += 1
    except IndexError:
        y = y - 1
    wide = torch.ones(2, 1).expand(2, 3)
    try:
        wide[wide > 0] += 1
    except RuntimeError:
        y = y - 1
    return y


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)


@pytest.mark.parametrize("symbol", ["+=", "-=", "*=", "/="])
def test_gradients(symbol):
    names: dict = {}
    exec(f"def f(x):\n    y = x * 2\n    y[y > 0] {symbol} 3\n    return y.sin().sum()", names)
    captured = Captured(names["f"])
    x = torch.randn(4, 5, requires_grad=True)
    expected, found = (torch.autograd.grad(f(x), x)[0] for f in (names["f"], captured))
    assert torch.equal(found, expected)
    assert (captured.count("graph"), captured.count("break")) == (1, 0)


def test_a_leaf_raises_as_in_eager():
    def f(x):
        x[x > 0] += 1
        return x

    with pytest.raises(RuntimeError, match="leaf"):
        Captured(f)(torch.ones(3, requires_grad=True))
