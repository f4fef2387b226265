"""What a custom op writes into holds something else afterwards: nothing is known of it, nothing else stands for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from longhand.capture.frontends.export import capture_export
from longhand.capture.known.deduction import facts_of
from longhand.capture.known.held import with_held
from longhand.capture.known.written import written_nodes
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target
from longhand.schedule.scheduler import schedule
from longhand.schedule.without_input import made_of_nothing
from tests.schedule.test_scheduler import TARGETS, Unit, exported

Results = tuple[torch.Tensor, ...]


@torch.library.custom_op("longhand_test::add_to", mutates_args=("x",))
def add_to(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(y)


def of_zeros(x: torch.Tensor) -> Results:
    total = torch.zeros(3, 4)
    add_to(total, x)
    return total + x, total * 2


def of_ones_by_what_was_made_of_them(x: torch.Tensor) -> Results:
    total = torch.ones(3, 4)
    before = total + x
    add_to(total, before)
    return total + 1, before


def of_positions(x: torch.Tensor) -> Results:
    places = torch.arange(3)
    add_to(places, torch.tensor([2, 0, -2]))
    return x[places], places + 1


def joined_afterwards(x: torch.Tensor) -> Results:
    total = x * 2
    before = total + 1
    add_to(total, x)
    return torch.cat([before, total]), F.pad(total, (1, 1)), torch.stack([total, x])


def of_a_constant(x: torch.Tensor) -> Results:
    total = torch.tensor([1.0, 2.0, 3.0, 4.0])
    add_to(total, x[0])
    return torch.cat([total, x[1]]), total * x


class Called(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Results]) -> None:
        super().__init__()
        self.function = function
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> Results:
        return self.function(x * self.scale)


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
FUNCTIONS = [of_zeros, of_ones_by_what_was_made_of_them, of_positions, joined_afterwards, of_a_constant]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_later_readers_see_what_was_written(function: Callable[[torch.Tensor], Results], target: str) -> None:
    with torch.no_grad():
        program, inputs = exported(Called(function), X)
        results = Unit(schedule(program, TARGETS[target]), inputs).results()
        torch.testing.assert_close(results, list(function(X)))


def test_no_fact_is_of_what_is_written() -> None:
    graph = capture_export(Called(of_zeros), (X,), {}, target=Target(Device.CPU)).graph
    (written,) = written_nodes(graph)
    assert written not in facts_of(graph)


def test_nothing_that_is_written_is_held() -> None:
    """A unit's constant would be another one in the next call."""
    options = Options(Target(Device.CPU))
    graph = capture_export(Called(of_positions), (X,), {}, target=options.target)
    n_constants = len(graph.constants)
    made = made_of_nothing(schedule(lower(graph, options), options))
    assert {node.name for node in written_nodes(graph.graph)} & set(made)
    assert len(with_held(graph, made, Device.CPU).constants) == n_constants
