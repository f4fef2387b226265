"""What Python says of a size that varies, as an operand: ``x * (n > 20)``."""

from __future__ import annotations

import pytest
import torch

from longhand.compiled.from_bytecode import captured


def scaled(x):
    return x * (x.shape[0] > 20)


def summed(x):
    n = x.shape[0]
    return x + (n > 20) * 2 + (n % 2 == 0)


def filled(x):
    return torch.full((2,), x.shape[0] > 20) & (x.shape[0] != 30)


def chosen(x):
    return torch.where(x > 0, x.shape[0] > 20, False)


@pytest.mark.parametrize("function", [scaled, summed, filled, chosen], ids=lambda one: one.__name__)
def test_a_condition_is_decided_as_a_branch_is(function, hook):
    compiled = captured(function, options={"strict": True})
    for size in (10, 30, 15, 40, 21, 20):
        x = torch.randn(size, 3)
        found, wanted = compiled(x), function(x)
        assert found.dtype is wanted.dtype
        torch.testing.assert_close(found, wanted)
