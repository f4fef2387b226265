"""What `torch.rand` draws lies in [0, 1): a branch on it that can go one way only breaks no graph."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import longhand
from longhand.capture.bytecode.values.drawn_numbers import DrawnNumbers
from tests.capture.bytecode.running import Captured

X = torch.arange(6.0).reshape(2, 3)


class LayerDrop(nn.Module):
    """Layers that are skipped with a probability, as BART's."""

    def __init__(self, layerdrop: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
        self.layerdrop = layerdrop

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            if self.training and torch.rand([]) < self.layerdrop:
                continue
            x = layer(x)
        return x


def seeded(call: Callable[[torch.Tensor], torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """What a call gives, and what the generator draws after it."""
    torch.manual_seed(7)
    return call(X), torch.rand(3)


@pytest.mark.parametrize("layerdrop", [0.0, 1.0, -0.5])
def test_layers_that_are_never_or_always_skipped_are_one_graph(layerdrop: float) -> None:
    module = LayerDrop(layerdrop)
    captured = Captured(module)
    for mine, eagers in zip(seeded(captured), seeded(module), strict=True):
        assert torch.equal(mine, eagers)
    assert (captured.count("graph"), captured.count("break")) == (1, 0)


def test_layers_that_may_be_skipped_break() -> None:
    module = LayerDrop(0.5)
    captured = Captured(module)
    for mine, eagers in zip(seeded(captured), seeded(module), strict=True):
        assert torch.equal(mine, eagers)
    assert captured.count("break") > 0


def test_another_probability_is_looked_at_again() -> None:
    module = LayerDrop(0.0)
    captured = Captured(module)
    captured(X)
    module.layerdrop = 1.0
    assert torch.equal(captured(X), X)


def test_a_unit_draws_what_eager_draws() -> None:
    module = LayerDrop(0.0)
    torch.compiler.reset()
    for mine, eagers in zip(seeded(longhand.compile(module)), seeded(module), strict=True):
        torch.testing.assert_close(mine, eagers)


@pytest.mark.parametrize(
    ("compare", "limit", "holds"),
    [
        (operator.lt, 0, False),
        (operator.lt, 1, True),
        (operator.lt, 0.1, None),
        (operator.le, -1e-3, False),
        (operator.le, 0.0, None),
        (operator.le, -1e-60, None),  # a single-precision 0
        (operator.gt, 1.0, False),
        (operator.gt, 0.0, None),
        (operator.gt, -1.0, True),
        (operator.ge, 0.0, True),
        (operator.ge, math.inf, False),
        (operator.lt, math.nan, None),
        (operator.lt, 10**400, None),  # no double
    ],
)
def test_only_what_no_draw_decides_is_known(
    compare: Callable[[object, object], bool], limit: float, holds: bool | None
) -> None:
    mirrored = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}[compare.__name__]
    numbers = DrawnNumbers()
    with FakeTensorMode():
        drawn = torch.rand([])
    numbers.follow(torch.rand, drawn)
    assert numbers.compared(compare, (drawn, limit)) is holds
    assert numbers.compared(getattr(operator, mirrored), (limit, drawn)) is holds


def test_what_is_written_or_rounded_is_not_known() -> None:
    numbers = DrawnNumbers()
    with FakeTensorMode():
        drawn, half = torch.rand(2), torch.rand(2, dtype=torch.float16)
        numbers.follow(torch.rand, drawn)
        numbers.follow(torch.rand, half)
        assert numbers.compared(operator.lt, (half, 1.0)) is None
        assert numbers.compared(operator.lt, (drawn, 1.0)) is True
        drawn.mul_(2)
        assert numbers.compared(operator.lt, (drawn, 1.0)) is None
