"""Modes of torch around a compiled call, or inside it: they see, change and differentiate what they do in eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import longhand


class _OneMore(TorchDispatchMode):
    """Adds one to what relu gives."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        return made + 1 if func is torch.ops.aten.relu.default else made


def positive(x):
    return torch.relu(x) * 2


def test_a_dispatch_mode_changes_what_it_changes_in_eager() -> None:
    compiled = longhand.compile(positive)
    given = torch.tensor([-1.0, 3.0])
    for _ in range(2):  # before and after a graph was made
        with _OneMore():
            torch.testing.assert_close(compiled(given), torch.tensor([2.0, 8.0]))
        torch.testing.assert_close(compiled(given), torch.tensor([0.0, 6.0]))


def test_a_flop_counter_counts_all() -> None:
    def product(x):
        return torch.relu(x @ x) + 1

    compiled = longhand.compile(product)
    compiled(torch.ones(8, 8))
    with FlopCounterMode(display=False) as counter:
        compiled(torch.ones(8, 8))
    assert counter.get_total_flops() == 2 * 8**3


@pytest.mark.parametrize("around", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_without_inference_mode_there_are_gradients_again(around: Any) -> None:
    """As in eager: `inference_mode(False)` turns them on, even below `no_grad`."""

    def function(x):
        with torch.no_grad(), torch.inference_mode(False):
            y = x * 2
        with torch.inference_mode(False):
            return y, x.exp()

    given = torch.ones(3, requires_grad=True)
    with around():
        expected, found = function(given), longhand.compile(function)(given)
    assert [one.requires_grad for one in found] == [one.requires_grad for one in expected] == [True, True]
    mine, eager = (
        torch.autograd.grad(first.sum() + second.sum(), given)[0] for first, second in (found, expected)
    )
    torch.testing.assert_close(mine, eager)
