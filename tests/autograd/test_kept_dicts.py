"""A dict that a Function keeps on ctx and that others hold, too: what its backward reads is looked at again then."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn

import longhand
from longhand.errors import EagerWarning


class Power(torch.autograd.Function):
    """Its backward reads the power that its forward was called with, and half of it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, config: dict[str, Any]) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.config = config
        return x ** config["power"]

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        config = ctx.config
        return grad * x * (config["power"] / config["half"]), None


class Model(nn.Module):
    def __init__(self, function: type[torch.autograd.Function] = Power) -> None:
        super().__init__()
        self.config = {"power": 2, "half": 2.0, "unread": 0}
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function.apply(x.sin(), self.config).cos()  # type: ignore[no-any-return]


def _gradient(run: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(run(x).sum(), x)[0]


@pytest.fixture
def x() -> torch.Tensor:
    return torch.linspace(0.1, 0.9, 6).requires_grad_()


def test_it_is_one_graph(x: torch.Tensor) -> None:
    model = Model()
    found = longhand.explain(model)(x)
    assert len(found.graphs) == 1 and not found.breaks
    compiled = longhand.compile(model)
    for power in (2, 3):
        model.config["power"] = power
        torch.testing.assert_close(_gradient(compiled, x), _gradient(model, x))


def test_what_changes_before_the_backward_is_seen(x: torch.Tensor) -> None:
    model = Model()
    result = longhand.compile(model)(x)
    model.config["half"] = 4.0
    with pytest.raises(RuntimeError, match=r"reads ctx.config\['half'\], which was 2.0 when its forward ran"):
        result.sum().backward()


def test_what_it_does_not_read_may_change(x: torch.Tensor) -> None:
    model = Model()
    expected = _gradient(model, x)
    result = longhand.compile(model)(x)
    model.config["unread"] += 1
    model.config["new"] = 1
    torch.testing.assert_close(torch.autograd.grad(result.sum(), x)[0], expected)


def test_gradients_may_come_by_what_the_graph_wrote_into(x: torch.Tensor) -> None:
    model = Model()

    def write(x: torch.Tensor, into: torch.Tensor) -> None:
        into.mul_(Power.apply(x, model.config))

    compiled = longhand.compile(write)
    for changed in (False, True):
        into = torch.ones(6, requires_grad=True).clone()
        compiled(x, into)
        model.config["half"] = 2.0 + changed
        if changed:
            with pytest.raises(RuntimeError, match="has changed since"):
                into.sum().backward()
        else:
            torch.testing.assert_close(torch.autograd.grad(into.sum(), x)[0], x.detach())


class GoesThrough(Power):
    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad * sum(ctx.config.values()), None


class Asks(Power):
    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad * (2 if "scale" in ctx.config else 3), None


class Writes(Power):
    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        ctx.config["power"] += 1
        return grad * ctx.config["power"], None


@pytest.mark.parametrize("function", [GoesThrough, Asks, Writes])
def test_more_than_reads_are_eagers(function: type[torch.autograd.Function], x: torch.Tensor) -> None:
    model, ours = Model(function), Model(function)
    found = longhand.explain(ours)(x)
    assert any("which others may change" in one.reason for one in found.breaks)
    compiled = longhand.compile(ours)
    ours.config = dict(model.config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EagerWarning)
        for _ in range(2):
            torch.testing.assert_close(_gradient(compiled, x), _gradient(model, x))
    assert ours.config == model.config
