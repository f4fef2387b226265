"""Functions of torch and of the standard library that are replaced after a capture: the next call sees the new ones."""

import functools
import math

import pytest
import torch
import torch.nn.functional as F

from tests.capture.bytecode import running

X = torch.linspace(-2, 2, 6)


def relu_and_root(x):
    return torch.relu(x) + math.sqrt(4.0) + F.gelu(x)


def tanh(x):
    return x.tanh()


def reduced(x):
    return x + functools.reduce(lambda a, b: a + b, [1, 2])


@pytest.mark.parametrize(
    ("function", "owner", "name", "new"),
    [
        (relu_and_root, torch, "relu", lambda x: x * 100),
        (relu_and_root, math, "sqrt", lambda v: v + 1),
        (relu_and_root, F, "gelu", lambda x: x * 3),
        (tanh, torch.Tensor, "tanh", lambda x: x * 9),
        (reduced, functools, "reduce", lambda f, values, *start: values[-1]),
    ],
)
def test_a_replaced_function(hook, monkeypatch, function, owner, name, new):
    captured = running.Captured(function)
    before = captured(X)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, new)
        replaced = captured(X)
        assert torch.equal(replaced, function(X)) and not torch.equal(replaced, before)
    assert torch.equal(captured(X), before)
    assert captured.count("graph") >= 1 and torch.equal(function(X), before)
