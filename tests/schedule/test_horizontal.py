"""Which launches become one over lists of tensors, and which must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import longhand
from longhand.capture.frontends.export import capture_export
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target
from longhand.schedule.fusion.horizontal import FEWEST, _ordered
from longhand.schedule.plan import Launch, UnitPlan
from longhand.schedule.scheduler import schedule

SIZES = [(4, 4), (5,), (2, 3, 7), (64,), (1,), ()]


def plan_of(model: Callable[..., Any], *args: Any) -> UnitPlan:
    options = Options(target=Target(Device.CPU))
    return schedule(lower(capture_export(model, args, {}, target=options.target), options), options)


def launches(plan: UnitPlan) -> list[Launch]:
    return [step for step in plan.steps if isinstance(step, Launch)]


def lists(n: int, sizes: list[tuple[int, ...]] = SIZES) -> tuple[list[torch.Tensor], ...]:
    return tuple([torch.rand(size) for size in sizes] for _ in range(n))


def descend(params, grads):
    for param, grad in zip(params, grads, strict=True):
        param.sub_(0.1 * grad)


def test_tensors_of_all_sizes_are_one_launch() -> None:
    (launch,) = launches(plan := plan_of(descend, *lists(2)))
    kernel = plan.kernels[launch.kernel]
    assert kernel.schedule.is_over_lists
    assert all(pointer.many for pointer in kernel.pointers)
    assert [group.sizes for group in launch.groups] == [(16,), (5,), (42,), (64,), (1,), (1,)]
    assert len(set(launch.touched)) == 2 * len(SIZES)


def test_what_all_share_is_no_list() -> None:
    def scaled(params, rate):
        for param in params:
            param.mul_(rate)

    plan = plan_of(scaled, *lists(1), torch.tensor(0.5))
    (kernel,) = plan.kernels.values()
    assert [pointer.many for pointer in kernel.pointers] == [False, True]


@pytest.mark.parametrize("n_tensors", [FEWEST - 1, FEWEST])
def test_few_tensors_keep_launches_of_their_own(n_tensors: int) -> None:
    found = launches(plan_of(descend, *lists(2, [(8,), (9,), (10,), (11,)][:n_tensors])))
    assert len(found) == (1 if n_tensors >= FEWEST else n_tensors)


def test_other_numbers_are_other_launches() -> None:
    def descend_at_two_rates(params, grads):
        descend(params[:4], grads[:4])
        for param, grad in zip(params[4:], grads[4:], strict=True):
            param.sub_(0.2 * grad)

    plan = plan_of(descend_at_two_rates, *lists(2, [(size,) for size in range(8, 16)]))
    assert [len(launch.groups) for launch in launches(plan)] == [4, 4]


def test_each_waits_for_what_it_reads() -> None:
    """Two updates, the second of which reads what the first wrote of the next parameter: a list each, in order."""

    def shifted(params, others):
        for param in params:
            param.mul_(2.0)
        for place, other in enumerate(others):
            other.add_(params[(place + 1) % len(params)].reshape(-1)[:3])

    plan = plan_of(shifted, *lists(1, [(8,)] * 5), *lists(1, [(3,)] * 5))
    first, second = launches(plan)
    assert len(first.groups) == len(second.groups) == 5
    assert {group.buffers[0] for group in second.groups} <= set(first.touched)


def test_lists_that_would_wait_for_each_other_are_given_up() -> None:
    """a0, then b0 of it, but b1, then a1 of it: with all of a in one launch, b would come both before and after."""
    waits: list[set[int]] = [set(), {0}, set(), {2}]
    assert _ordered([(0, 3)], waits) == [(2,), (0, 3), (1,)]
    assert _ordered([(0, 3), (1, 2)], waits) is None


def test_a_modules_layers_are_left_to_repeats() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.ParameterList([nn.Parameter(torch.rand(8)) for _ in range(6)])

        def forward(self, x):
            return [x * weight for weight in self.weights]

    plan = plan_of(Scaled(), torch.rand(8))
    assert all(not kernel.schedule.is_over_lists for kernel in plan.kernels.values())


def test_a_number_that_fills_a_tensor_is_in_no_list_of_tensors() -> None:
    """The body is the same, but nothing lies behind the number."""

    def scaled(factor, rows, numbers):
        filled = [(one * factor).expand(3) for one in numbers]
        return [one * factor for one in (*(row * factor for row in rows), *filled)]

    args = torch.tensor(2.0), [torch.rand(3) for _ in range(FEWEST)], [torch.rand(()) for _ in range(FEWEST)]
    plan = plan_of(scaled, *args)
    assert [len(launch.groups) for launch in launches(plan)] == [FEWEST, FEWEST]
    for ours, eagers in zip(longhand.compile(scaled)(*args), scaled(*args), strict=True):
        torch.testing.assert_close(ours, eagers)
