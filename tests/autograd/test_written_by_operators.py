"""What a custom op has written into is kept for the backward pass, and so is what was made of it: made again, it would
be as before the write."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from longhand.api import generate
from longhand.capture.autograd.joint import differentiate
from longhand.capture.autograd.kept.partition import partition
from longhand.capture.frontends.export import capture_export
from longhand.capture.known.written import written_nodes
from longhand.emit.unit.loading import load_unit
from longhand.options import Device, Target

Pair = tuple[torch.Tensor, torch.Tensor]


@torch.library.custom_op("longhand_test::take_on", mutates_args=("x",))
def take_on(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(y)


def of_zeros(x: torch.Tensor, y: torch.Tensor) -> Pair:
    total = torch.zeros(3, 4)
    take_on(total, y)
    return (total * x).sin(), x + 1


def read_before_and_after(x: torch.Tensor, y: torch.Tensor) -> Pair:
    total = y.cos()
    before = total.exp()
    take_on(total, before)
    return (x.sin() * total).cos(), (x * before).sin()


def of_positions(x: torch.Tensor, y: torch.Tensor) -> Pair:
    places = torch.arange(3)
    take_on(places, torch.tensor([2, 0, -2]))
    return x[places].sin() * y, x * 2


def arguments() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(3, 4, generator=generator) for _ in range(2))
    return x.requires_grad_(), y


@pytest.mark.parametrize("budget", [1.0, 0.0])
@pytest.mark.parametrize("function", [of_zeros, read_before_and_after, of_positions])
def test_it_is_not_made_again(function, budget: float) -> None:
    target = Target(Device.CPU)
    joint = differentiate(capture_export(function, arguments(), target=target, train=True), target)
    again = partition(joint, memory_budget=budget).recomputed
    written = written_nodes(joint.graph)
    assert written
    assert not any(node in written or written.intersection(node.all_input_nodes) for node in again)


def test_gradients(tmp_path: Path) -> None:
    def each(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (*of_zeros(x, y), *read_before_and_after(x, y), *of_positions(x, y))

    generate(each, arguments(), out=tmp_path / "unit", train=True, run=False, device="cpu")
    found = []
    for run in (each, load_unit(tmp_path / "unit")):
        x, y = arguments()
        results = run(x, y)
        sum(result.sum() for result in results).backward()
        found.append((*(result.detach() for result in results), x.grad))
    torch.testing.assert_close(found[1], found[0])
