"""What a plan would make of nothing is held: the same values, and only where every device makes the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from longhand.capture.frontends.export import capture_export
from longhand.capture.graph import CapturedGraph, InputKind
from longhand.capture.known.held import with_held
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target
from longhand.schedule.scheduler import schedule
from longhand.schedule.without_input import made_of_nothing

TARGETS = {Device.CPU: Target(Device.CPU), Device.CUDA: Target(Device.CUDA, "sm_90")}


class Placed(nn.Module):
    """Writes to positions that no input decides, by a library call."""

    def __init__(self, positions: Callable[[int], torch.Tensor], has_weight: bool = True) -> None:
        super().__init__()
        self.positions = positions
        self.scale = nn.Parameter(torch.ones(())) if has_weight else 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * x.scatter_reduce(1, self.positions(x.shape[1]), x, "amax")


def held(module: nn.Module, device: Device, *args: torch.Tensor) -> tuple[CapturedGraph, CapturedGraph]:
    """The captured graph, and what holds what its plan makes of nothing."""
    graph = capture_export(module, args, {}, target=TARGETS[device])
    plan = schedule(lower(graph, Options(TARGETS[device])), Options(TARGETS[device]))
    return graph, with_held(graph, made_of_nothing(plan), device)


def distances(n: int) -> torch.Tensor:
    ids = torch.arange(n)
    return (ids[:, None] - ids + 3).clamp(0, n - 1)


def buckets(n: int) -> torch.Tensor:
    return (torch.log(distances(n).float() + 1) * 1.4).long()


X = torch.arange(36.0).reshape(6, 6)


@pytest.mark.parametrize("device", TARGETS)
def test_whole_numbers_are_held_on_every_device(device: Device) -> None:
    _, graph = held(Placed(distances), device, X)
    (value,) = graph.constants.values()
    torch.testing.assert_close(value, distances(6), rtol=0, atol=0)
    assert [entry.kind for entry in graph.inputs][-1] is InputKind.CONSTANT


class Named(Placed):
    """The places have a name of their own, or only what they go into has."""

    def __init__(self, of_its_own: bool) -> None:
        super().__init__(distances)
        self.of_its_own = of_its_own

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.of_its_own:
            places = distances(x.shape[1]) // 2
            return self.scale * x.scatter_reduce(1, places, x, "amax")
        largest = self.scale * x.scatter_reduce(1, distances(x.shape[1]) // 2, x, "amax")
        return largest + 1


@pytest.mark.parametrize(("of_its_own", "word"), [(True, "places"), (False, "largest_table")])
def test_it_has_the_users_name(of_its_own: bool, word: str) -> None:
    _, graph = held(Named(of_its_own), Device.CPU, X)
    assert list(graph.constants) == [word]


def test_a_model_without_weights_holds_nothing_on_a_gpu() -> None:
    """Nobody moves it there: its unit would have the constant on the CPU, and refuse every call."""
    before, after = held(Placed(distances, has_weight=False), Device.CUDA, X)
    assert after is before
    _, on_cpu = held(Placed(distances, has_weight=False), Device.CPU, X)
    assert on_cpu.constants


class Sloped(nn.Module):
    """A library call adds slopes to scores, as ALiBi does; perhaps something is decided by them, too."""

    def __init__(self, is_decided: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))
        self.is_decided = is_decided

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        slopes = torch.pow(0.3, torch.arange(1, 7, device=x.device))
        scores = torch.addmm(slopes[:, None].expand(6, 6), x, self.weight)
        return torch.where(scores > slopes, scores, 0.0) if self.is_decided else scores.softmax(-1)


@pytest.mark.parametrize("device", TARGETS)
def test_powers_are_held_where_nothing_is_decided_by_them(device: Device) -> None:
    _, graph = held(Sloped(), device, X)
    (value,) = graph.constants.values()
    torch.testing.assert_close(value.flatten()[:: value.numel() // 6], 0.3 ** torch.arange(1, 7))
    before, after = held(Sloped(is_decided=True), device, X)
    assert (after is before) == (device is Device.CUDA)


def test_what_is_made_of_a_held_value_alone_is_held_in_its_place() -> None:
    class Alibi(Sloped):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            slopes = torch.pow(0.3, torch.arange(1, 7, device=x.device))
            distances = torch.arange(6, device=x.device) - torch.arange(6, device=x.device)[:, None]
            bias = slopes.cumsum(0)[:, None] * distances  # a sum along rows is a kernel of its own
            return torch.addmm(bias, x, self.weight).softmax(-1)

    _, graph = held(Alibi(), Device.CUDA, X)
    assert list(graph.constants) == ["bias"]
    wanted = (0.3 ** torch.arange(1, 7)).cumsum(0)[:, None] * (torch.arange(6) - torch.arange(6)[:, None])
    torch.testing.assert_close(graph.constants["bias"], wanted)


def test_a_logarithm_of_which_indices_are_made_is_held_on_the_cpu_alone() -> None:
    _, graph = held(Placed(buckets), Device.CPU, X)
    (value,) = graph.constants.values()
    torch.testing.assert_close(value, buckets(6), rtol=0, atol=0)
    before, after = held(Placed(buckets), Device.CUDA, X)
    assert after is before


@pytest.mark.parametrize(
    "positions",
    [lambda n: torch.randint(n, (n, n)), lambda n: torch.empty(n, n).long() * 0],
    ids=["random", "empty"],
)
def test_what_differs_from_call_to_call_is_not_held(positions: Callable[[int], torch.Tensor]) -> None:
    before, after = held(Placed(positions), Device.CPU, X)
    assert not after.constants and after is before


def test_what_the_caller_gets_is_its_own() -> None:
    class Returned(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x + 1, distances(x.shape[0]).view(-1)

    before, after = held(Returned(), Device.CPU, X)
    assert after is before


def test_a_large_one_is_made_in_each_call() -> None:
    before, after = held(Placed(distances), Device.CPU, torch.zeros(400, 400))
    assert after is before


@pytest.mark.parametrize("n", [3, 19, 200])
def test_a_mask_that_two_layers_read_is_computed_in_each_however_small(n: int) -> None:
    """Its positions have one reader, the comparison; without them that reads nothing."""

    class Masked(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            places = torch.arange(n)
            mask = torch.where(places[None, :] <= places[:, None], 0.0, -1e9)
            for _ in range(2):
                x = (x @ y + mask).softmax(-1)
            return x

    graph = capture_export(Masked(), (torch.randn(n, n), torch.randn(n, n)), {}, target=TARGETS[Device.CUDA])
    options = Options(TARGETS[Device.CUDA])
    plan = schedule(lower(graph, options), options)
    assert not made_of_nothing(plan)
    assert len(plan.kernels) == 1
