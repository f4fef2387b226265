"""A function that differentiates with create_graph=True: eager runs it, with all that it calls, from its first call."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn

import longhand
from longhand.errors import EagerWarning


def _gradient(y: torch.Tensor, x: torch.Tensor, create: bool) -> torch.Tensor:
    return torch.autograd.grad(y, x, create_graph=create)[0]


def penalty(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = (x * w).sin().sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    return g.pow(2).sum()


def in_a_function_of_its_own(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return _gradient((x * w).sin().sum(), x, True).pow(2).sum()


def given_by_position(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = (x * w).sin()
    return torch.autograd.grad(y, x, torch.ones_like(y), None, True)[0].pow(2).sum()


def behind_another_break(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = (x * w).sin().sum()
    print(end="")
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    return g.pow(2).sum()


def through_a_module(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = nn.functional.gelu(_Inner()(x) * w).sum()
    return _gradient(y, x, True).pow(2).sum()


class _Inner(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.tanh().square()


def a_hessian(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    hessian = torch.autograd.functional.hessian(lambda t: (t * w).sin().sum(), x, create_graph=True)
    return hessian.square().sum()


def _step(run: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
    x, w = (torch.linspace(a, 1.0, 5, dtype=torch.float32).requires_grad_() for a in (0.1, 0.5))
    result = run(x, w)
    return [result, *torch.autograd.grad(result, (x, w))]


CASES = [
    penalty,
    in_a_function_of_its_own,
    given_by_position,
    behind_another_break,
    through_a_module,
    a_hessian,
]


@pytest.mark.parametrize("function", CASES)
def test_the_first_call_is_right_and_the_reason_is_told(function: Callable[..., torch.Tensor]) -> None:
    compiled = longhand.compile(function)
    with pytest.warns(EagerWarning, match=r"what it calls run in eager: .*second derivative"):
        torch.testing.assert_close(_step(compiled), _step(function), rtol=0, atol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", EagerWarning)
        torch.testing.assert_close(_step(compiled), _step(function), rtol=0, atol=0)


def test_gradients_without_a_graph_stay_a_break() -> None:
    def force(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return _gradient((x * w).sin().sum(), x, False) * 2

    x, w = torch.randn(5, requires_grad=True), torch.randn(5)
    found = longhand.explain(force)(x, w)
    assert len(found.graphs) == 2
    assert [one.reason for one in found.breaks] == ["torch.autograd.grad is called"]
