"""A cheap op alone, over what it reads, is torch's own call; fused, or with memory of its own, it is a kernel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from longhand.schedule.plan import Extern, Launch, UnitPlan
from longhand.schedule.scheduler import schedule
from tests.schedule.test_scheduler import TARGETS, Unit, exported, rand


class Between(nn.Module):
    """Something between two products."""

    def __init__(self, op: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first, self.op, self.second = nn.Linear(8, 8), op, nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.op(self.first(x)))


def planned(module: nn.Module, *args: torch.Tensor, target: str = "cpu") -> UnitPlan:
    with torch.no_grad():
        program, inputs = exported(module, *args)
        plan = schedule(program, TARGETS[target])
        expected = module(*args)
    results = expected if isinstance(expected, tuple) else (expected,)
    for ours, eager in zip(Unit(plan, inputs).results(), results, strict=True):
        torch.testing.assert_close(ours, eager)
    return plan


def calls(plan: UnitPlan) -> list[str]:
    """The library calls in place."""
    return [str(step.target) for step in plan.steps if isinstance(step, Extern) and step.mutates]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["relu", "neg", "abs", "floor", "ceil", "trunc"])
def test_alone_and_in_place(name: str, target: str) -> None:
    plan = planned(Between(getattr(torch, name)), rand(4, 8), target=target)
    assert calls(plan) == [f"aten.{name}_.default"]
    assert not plan.kernels


@pytest.mark.parametrize(
    "op",
    [
        lambda x: torch.relu(x) * 2,
        lambda x: torch.relu(x.t()).contiguous().view(8, 4).t(),
        torch.tanh,
        torch.nn.functional.gelu,
    ],
    ids=["fused", "of a view", "tanh", "gelu"],
)
def test_a_kernel_that_does_more(op: Callable[[torch.Tensor], torch.Tensor]) -> None:
    plan = planned(Between(op), rand(4, 8))
    assert not calls(plan)
    assert plan.kernels


def test_what_is_still_read_is_not_overwritten() -> None:
    class Kept(Between):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
            hidden = self.first(x)
            return self.second(torch.relu(hidden)), hidden

    plan = planned(Kept(torch.relu), rand(4, 8))
    assert not calls(plan)
    assert any(isinstance(step, Launch) for step in plan.steps)


def test_a_kernel_that_is_there_anyway_is_launched() -> None:
    class Both(Between):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(torch.relu(self.first(torch.relu(x))))

    plan = planned(Both(torch.relu), rand(4, 8))
    assert not calls(plan)
    assert len([step for step in plan.steps if isinstance(step, Launch)]) == 2


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("number", "name"), [(0.0, "zero_"), (-1e9, "fill_"), (-0.0, "fill_")])
def test_one_number_everywhere_takes_no_kernel(number: float, name: str, target: str) -> None:
    class Largest(nn.Module):
        def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            start = torch.full((x.shape[1],), number)
            return start.scatter_reduce(0, index, x[0], "amax")

    plan = planned(Largest(), rand(3, 8), torch.arange(8) // 2, target=target)
    assert [call.split(".")[1] for call in calls(plan)] == [name, "scatter_reduce_"]  # into what was filled
    assert not [kernel for kernel in plan.kernels.values() if len(kernel.pointers) == 1]


@pytest.mark.parametrize("target", TARGETS)
def test_a_number_that_is_infinite_in_memory_is_a_kernel(target: str) -> None:
    """``fill_`` raises for what a float16 does not hold."""

    class Infinite(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.full((x.shape[1],), 1e10).half().scatter_reduce(0, x[0], x[1].half(), "amin")

    plan = planned(Infinite(), torch.arange(8).view(2, 4) % 2, target=target)
    assert not [call for call in calls(plan) if "fill_" in call]


def test_a_number_in_a_part_of_a_tensor_is_a_kernel() -> None:
    class Padded(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x[:, 2:4].zero_()
            return x.sum(0), x

    plan = schedule(exported(Padded(), rand(3, 8))[0], TARGETS["cpu"])
    assert not [call for call in calls(plan) if "fill_" in call or "zero_" in call]
