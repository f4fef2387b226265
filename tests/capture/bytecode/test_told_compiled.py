"""Code that asks whether it is compiled: it is told so, unless it raises then."""

from __future__ import annotations

import pytest
import torch
from torch import fx, nn

from longhand.capture.frontends.bytecode import capture_bytecode
from longhand.errors import GraphBreakError
from longhand.options import Device, Target
from tests.capture.bytecode.running import Captured, check

X = torch.randn(3, 4)


def is_told() -> bool:
    """As transformers asks, by a function of its own."""
    return torch.compiler.is_compiling()


def bucket(mask: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return x * mask.size(0)


def needs_a_mask(x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """UDOP: a compiled model is to be given its mask, and makes one in eager."""
    y = x.sin()
    if mask is None and not is_told():
        mask = torch.ones(x.shape[0])
    return bucket(mask, y) + mask[:, None]


def always_raises(x: torch.Tensor) -> torch.Tensor:
    y = x * (2 if is_told() else 3)
    raise ValueError(f"of {y.shape[0]} rows")


def test_what_raises_where_it_is_told_is_told_what_eager_tells_it():
    captured = check(needs_a_mask, (X,))
    assert captured.count("graph") == 1 and not captured.count("break") and not captured.count("skip")


def test_what_does_not_raise_is_told_that_it_is_compiled():
    captured = Captured(lambda x: (x + 1, is_told(), torch.compiler.is_dynamo_compiling()))
    assert captured(X)[1:] == (True, True)


def test_what_raises_either_way_raises_as_in_eager():
    check(always_raises, (X,))


def test_a_call_that_is_given_its_mask_is_not_that_one():
    captured = Captured(needs_a_mask, fullgraph=True)
    for mask in (None, torch.zeros(3), None):
        assert torch.equal(captured(X, mask), needs_a_mask(X, mask))
    assert captured.count("graph") == 2


class Masked(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return needs_a_mask(x)


class Raising(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return always_raises(x)


def test_a_unit_is_made_of_what_eager_does():
    graph = capture_bytecode(Masked(), (X,), target=Target(Device.CPU))
    (result,) = fx.Interpreter(fx.GraphModule(nn.Module(), graph.graph)).run(X)
    assert torch.equal(result, needs_a_mask(X))
    with pytest.raises(GraphBreakError, match="ValueError"):
        capture_bytecode(Raising(), (X,), target=Target(Device.CPU))


def makes_a_mask_that_does_not_fit(x: torch.Tensor) -> torch.Tensor:
    """BridgeTower: a compiled model's mask is of other sizes than what it is added to."""
    mask = torch.zeros(x.shape[0] + 1) if is_told() else torch.zeros(x.shape[0])
    return x.sin() + mask[:, None]


class Misfitting(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return makes_a_mask_that_does_not_fit(x)


def test_what_an_operation_raises_where_it_is_told_counts_too():
    captured = check(makes_a_mask_that_does_not_fit, (X,))
    assert captured.count("graph") == 1 and not captured.count("break") and not captured.count("skip")
    graph = capture_bytecode(Misfitting(), (X,), target=Target(Device.CPU))
    (result,) = fx.Interpreter(fx.GraphModule(nn.Module(), graph.graph)).run(X)
    assert torch.equal(result, X.sin())
