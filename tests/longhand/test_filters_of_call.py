"""Filters of one shape are brought channels last together, for one call, and the module has its own again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from longhand.compiled.filters_of_call import FiltersOfCall, Slot
from longhand.compiled.unit_binding import BoundModule, keep_while_backward_reads
from longhand.options import Device

N_ALIKE = 5


class Unit(nn.Module):
    """Convolutions as a unit holds them: what only convolutions read says so."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(4, 4, 3, bias=False) for _ in range(N_ALIKE))
        self.other, self.read_twice = nn.Conv2d(4, 4, (3, 5), bias=False), nn.Conv2d(4, 4, 3, bias=False)
        for conv in (*self.convs, self.other):
            conv.weight.lies_as_it_likes = True
        for part in self.modules():
            part.__dict__.update(part._parameters)


def bound_unit(device: Device, is_recorded: bool) -> tuple[BoundModule, list[torch.Tensor]]:
    paths = [*(f"convs.{number}.weight" for number in range(N_ALIKE)), "other.weight", "read_twice.weight"]
    bound = BoundModule.made(Unit, [*enumerate(paths)], device, is_recorded)
    weights = [
        *(torch.randn(4, 4, 3, 3) for _ in range(N_ALIKE)),
        torch.randn(4, 4, 3, 5),
        torch.randn(4, 4, 3, 3),
    ]
    bound.hold(weights)
    return bound, weights


def weights_of(bound: BoundModule) -> list[torch.Tensor]:
    module: Any = bound.module
    return [conv.weight for conv in (*module.convs, module.other, module.read_twice)]


def test_filters_of_one_shape_are_channels_last_while_a_call_runs() -> None:
    bound, weights = bound_unit(Device.CUDA, is_recorded=False)
    image = torch.randn(2, 4, 9, 9)
    with bound.filters:
        inside = weights_of(bound)
        is_last = [one.is_contiguous(memory_format=torch.channels_last) for one in inside]
        assert is_last == [True] * N_ALIKE + [False, False]
        for one, own in zip(inside, weights, strict=True):
            assert torch.equal(one, own)
            assert torch.allclose(F.conv2d(image, one), F.conv2d(image, own), atol=1e-5)
    assert all(one is own for one, own in zip(weights_of(bound), weights, strict=True))


def test_what_was_written_into_a_filter_is_seen_by_the_next_call() -> None:
    bound, weights = bound_unit(Device.CUDA, is_recorded=False)
    with bound.filters:
        pass
    weights[0].data.fill_(3.0)  # which tells no version
    with bound.filters:
        assert torch.equal(weights_of(bound)[0], weights[0])


def test_a_call_that_raises_leaves_the_modules_own() -> None:
    bound, weights = bound_unit(Device.CUDA, is_recorded=False)
    with pytest.raises(ValueError, match="in the call"), bound.filters:
        raise ValueError("in the call")
    assert weights_of(bound)[0] is weights[0]


@pytest.mark.parametrize(("device", "is_recorded"), [(Device.CPU, False), (Device.CUDA, True)])
def test_a_recording_and_the_cpu_take_them_as_they_are(device: Device, is_recorded: bool) -> None:
    bound, weights = bound_unit(device, is_recorded)
    with bound.filters:
        assert all(one is own for one, own in zip(weights_of(bound), weights, strict=True))


def test_filters_that_lie_so_already_and_few_are_left() -> None:
    few = [torch.randn(4, 4, 3, 3) for _ in range(3)]
    last = [torch.randn(4, 4, 3, 3).contiguous(memory_format=torch.channels_last) for _ in range(5)]
    pointwise = [torch.randn(4, 4, 1, 1) for _ in range(5)]
    for weights in (few, last, pointwise):
        for weight in weights:
            weight.lies_as_it_likes = True
        held: dict[str, Any] = {str(number): weight for number, weight in enumerate(weights)}
        slots: list[Slot] = [(held, held, name) for name in held]
        filters = FiltersOfCall(slots)
        filters.look_at(weights)
        with filters:
            assert all(held[str(number)] is weight for number, weight in enumerate(weights))


def test_large_filters_are_left_to_the_library() -> None:
    large = {str(number): torch.empty(1024, 128, 3, 3, device="meta") for number in range(5)}
    for weight in large.values():
        weight.lies_as_it_likes = True
    filters = FiltersOfCall([(large, large, name) for name in large])
    filters.look_at([*large.values()])
    before = [*large.values()]
    with filters:
        assert all(one is own for one, own in zip(large.values(), before, strict=True))


class _Trained(torch.autograd.Function):
    """A unit's function: its backward pass hands on gradients that lie as the filters which it finds."""

    @staticmethod
    def forward(ctx: Any, unit: Unit, image: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        ctx.kept = (unit,)
        ctx.image = image
        return sum(F.conv2d(image, conv.weight) for conv in unit.convs)  # type: ignore[return-value]

    @staticmethod
    def backward(ctx: Any, d_out: torch.Tensor) -> Any:
        unit = ctx.kept[0]
        seen.append([conv.weight.stride() for conv in unit.convs])
        gradients = []
        for conv in unit.convs:
            d_weight = torch.nn.grad.conv2d_weight(ctx.image, conv.weight.shape, d_out)
            gradients.append(torch.empty_like(conv.weight).copy_(d_weight))
        return None, None, *gradients, None, None


seen: list[list[tuple[int, ...]]] = []


@pytest.mark.parametrize("in_another_thread", [False, True])
def test_a_backward_pass_finds_them_and_hands_on_gradients_as_the_user_has_them(
    in_another_thread: bool,
) -> None:
    keep_while_backward_reads(Unit)
    bound, _ = bound_unit(Device.CUDA, is_recorded=False)
    weights = [nn.Parameter(torch.randn(4, 4, 3, 3)) for _ in range(N_ALIKE)]
    others = [nn.Parameter(torch.randn(4, 4, 3, 5)), nn.Parameter(torch.randn(4, 4, 3, 3))]
    bound.hold([*weights, *others])
    image = torch.randn(2, 4, 9, 9)
    with bound.filters:
        result = _Trained.apply(bound.module, image, *bound.module.parameters())
    if in_another_thread:
        bound.thread = -1
    found = torch.autograd.grad(result, weights, torch.ones_like(result))
    last = torch.empty(4, 4, 3, 3, memory_format=torch.channels_last).stride()
    assert seen.pop() == [last] * N_ALIKE
    expected = torch.autograd.grad(sum(F.conv2d(image, weight) for weight in weights).sum(), weights)
    for ours, eager in zip(found, expected, strict=True):
        assert ours.stride() == eager.stride()
        torch.testing.assert_close(ours, eager)
    assert weights_of(bound)[0] is weights[0]
