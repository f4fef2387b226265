"""What is written into a result in place is in what a training step returns."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch

import longhand
from longhand.errors import EagerWarning

Call = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def by_a_list(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    rows = y[:, [2, 0, 1]]
    rows.mul_(0.5)
    return rows


def by_two_lists(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    rows = y[[0, 1], [1, 0]]
    rows += x[0, 0]
    return rows


def a_view_of_it(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    rows = y[:, [2, 0, 1]]
    rows.copy_(x)
    return rows.view(-1)


def a_part_of_the_argument(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return y[:, 1:]


def filled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """It requires grad, and its gradient is zero."""
    rows = y.tril()
    rows.fill_(0.3)
    return rows


@pytest.mark.parametrize("call", [by_a_list, by_two_lists, a_view_of_it, a_part_of_the_argument, filled])
@pytest.mark.parametrize("frontend", ["bytecode", "dynamo"])
def test_results_of_training_are_eagers(call: Call, frontend: str) -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return y * 2, call(x, y)

    found = []
    for run in (step, longhand.compile(step, frontend=frontend)):
        torch.manual_seed(0)
        x, y = (torch.randn(3, 3, requires_grad=True) for _ in range(2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EagerWarning)
            results = run(x, y)
        assert all(one.requires_grad for one in results)
        sum(one.square().sum() for one in results).backward()
        found.append([*[one.detach() for one in results], y.grad])
    torch.testing.assert_close(*found)
