"""What is joined is computed where it is joined: rope out of products of halves is one kernel."""

from __future__ import annotations

import functools
import types
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.capture.frontends.export import capture_export
from longhand.lower.lowering import lower
from longhand.options import Device
from longhand.schedule.plan import Launch, UnitPlan
from longhand.schedule.scheduler import schedule
from longhand.verify.verification import verify
from tests.schedule.test_scheduler import TARGETS


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """As a person writes it whose tables are as wide as a half."""
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)


def interleaved(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Pairs that lie side by side."""
    x1, x2 = x[..., ::2], x[..., 1::2]
    return torch.stack([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1).flatten(-2)


def rows(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """The same over another dimension than the last."""
    x1, x2 = x.transpose(1, 2).chunk(2, dim=1)
    cos, sin = cos.t(), sin.t()
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=1)


def of_others(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """What is joined is read by something else, too: it must be written anyway."""
    x1, x2 = x.chunk(2, dim=-1)
    first, second = x1 * cos, x2 * cos
    both = torch.cat([first - x2 * sin, second + x1 * sin], dim=-1)
    return both + torch.matmul(first, second.transpose(1, 2)).sum()


class Rope(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        return rope(self.layer(x), cos, sin)


def arguments(width: int = 64, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    shapes = ((2, 3, width), (3, width // 2), (3, width // 2))
    return tuple(torch.randn(shape).to(dtype) for shape in shapes)


FUNCTIONS = (rope, interleaved, rows, of_others)
# Factories, for what verifies a unit in another process.
cases = types.SimpleNamespace(
    **{one.__name__: functools.partial(lambda one: (one, arguments()), one) for one in FUNCTIONS},
    odd=lambda: (rope, arguments(34)),
    bf16=lambda: (rope, arguments(64, torch.bfloat16)),
    Rope=lambda: (Rope(), arguments()),
)


def planned(function, inputs: tuple[torch.Tensor, ...], device: str = "cpu") -> UnitPlan:
    options = TARGETS[device]
    graph = capture_export(_Called(function).eval(), inputs, {}, target=options.target)
    return schedule(lower(graph, options), options)


class _Called(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def launches(plan: UnitPlan) -> list[Launch]:
    return [step for step in plan.steps if isinstance(step, Launch)]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("function", [rope, interleaved, rows])
def test_what_is_joined_is_one_kernel(function, device: str) -> None:
    assert len(launches(planned(function, arguments(), device))) == 1


def test_nothing_is_written_in_between(tmp_path: Path) -> None:
    longhand.generate(rope, arguments(), out=tmp_path / "unit", device="cuda", arch="sm_90")
    (path,) = [path for path in (tmp_path / "unit" / "kernels").glob("*.py") if path.stem != "__init__"]
    body = path.read_text()
    assert body.count("tl.load(") == 4
    assert body.count("tl.store(") == 2
    assert "where(" not in body


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_values_are_those_of_eager(function, tmp_path: Path) -> None:
    longhand.generate(function, arguments(), out=tmp_path / "unit", device="cpu")
    torch.testing.assert_close(longhand.load(tmp_path / "unit")(*arguments()), function(*arguments()))


@pytest.mark.parametrize("name", ["rope", "interleaved", "rows", "of_others", "odd", "bf16"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_units_are_right(name: str, device: str, tmp_path: Path) -> None:
    model, inputs = getattr(cases, name)()
    arch = "sm_90" if Device(device) is Device.CUDA else None
    longhand.generate(model, inputs, out=tmp_path / "unit", device=device, arch=arch)
    assert verify(tmp_path / "unit", f"tests.schedule.test_joined_products:cases.{name}").is_right


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_gradients_are_right(device: str, tmp_path: Path) -> None:
    arch = "sm_90" if Device(device) is Device.CUDA else None
    model, inputs = cases.Rope()
    longhand.generate(model, inputs, out=tmp_path / "unit", device=device, arch=arch, train=True)
    assert verify(tmp_path / "unit", "tests.schedule.test_joined_products:cases.Rope").is_right


def test_input_that_is_not_contiguous(tmp_path: Path) -> None:
    x, cos, sin = arguments()
    x = x.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    longhand.generate(rope, (x, cos, sin), out=tmp_path / "unit", device="cpu")
    torch.testing.assert_close(longhand.load(tmp_path / "unit")(x, cos, sin), rope(x, cos, sin))


def test_sizes_may_vary(tmp_path: Path) -> None:
    seq = torch.export.Dim("seq", min=2, max=64)
    varying = {"x": {1: seq}, "cos": {0: seq}, "sin": {0: seq}}
    unit = tmp_path / "unit"
    longhand.generate(rope, arguments(), out=unit, device="cpu", dynamic_shapes=varying)
    assert len([*(unit / "kernels").glob("*.cpp")]) == 1
    inputs = (torch.randn(2, 5, 64), torch.randn(5, 32), torch.randn(5, 32))
    torch.testing.assert_close(longhand.load(unit)(*inputs), rope(*inputs))


def test_nothing_expensive_is_computed_more_often() -> None:
    def expensive(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x1, x2 = x.chunk(2, dim=-1)
        angle, other = cos.exp(), cos.sin()  # of fewer rows than what is joined
        return torch.cat([x1 * angle - x2 * other, x2 * angle + x1 * other], dim=-1)

    x, cos, sin = arguments()
    plan = planned(expensive, (x.repeat(8, 1, 1), cos, sin))
    assert len(launches(plan)) == 2
