"""A write in place into what the backward pass needs: eager raises for it, and so does the compiled call."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.capture.frontends.export import capture_export
from longhand.compiled.from_bytecode import captured
from longhand.errors import CaptureError, EagerWarning
from longhand.options import Device, Target


def result_is_written(x: torch.Tensor) -> torch.Tensor:
    y = x.exp()
    z = y * 2
    y.add_(1)
    return z.sum() + y.sum()


def factor_is_written(x: torch.Tensor) -> torch.Tensor:
    a, b = x * 1, x.tanh()
    c = a * b
    a.zero_()
    return c.sum()


def view_is_written(x: torch.Tensor) -> torch.Tensor:
    y = x.sqrt()
    y.view(-1)[:2].zero_()
    return y.sum()


def one_of_two_views_is_needed(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    first, second = y.chunk(2)
    product = first * second
    y[0] = 1.0
    return product.sum() + y.sum()


def _step(function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor | None:
    x = torch.linspace(0.1, 0.9, 12).view(4, 3).requires_grad_()
    function(x).backward()
    return x.grad


@pytest.mark.parametrize("function", [result_is_written, factor_is_written, view_is_written])
def test_a_compiled_call_raises_what_eager_raises(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        _step(function)
    with (
        pytest.warns(EagerWarning, match="writes in place into a tensor that its backward pass needs"),
        pytest.raises(RuntimeError, match="modified by an inplace operation"),
    ):
        _step(captured(function))


@pytest.mark.parametrize("run", [lambda call: call, captured])
def test_several_views_of_what_is_written(run: Callable[..., Callable[[torch.Tensor], torch.Tensor]]) -> None:
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match="modified inplace"):
        warnings.simplefilter("ignore", EagerWarning)
        _step(run(one_of_two_views_is_needed))


def test_no_unit_is_made(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"needs \(.*output 0 of Exp, is at version 1; expected version 0"):
        longhand.generate(
            result_is_written, (torch.rand(4, 3, requires_grad=True),), out=tmp_path / "unit", train=True
        )
    assert not (tmp_path / "unit").exists()


def written_and_unread(x: torch.Tensor) -> torch.Tensor:
    """Writes that eager's backward pass does not mind: relu needs its result alone, and a sum nothing."""
    normed = F.relu(F.batch_norm(x, None, None, training=True), inplace=True)
    return ((normed * 2).add_(1) + x).mul_(3).sum()


@pytest.mark.filterwarnings("error::longhand.errors.EagerWarning")
def test_other_writes_stay_in_the_unit() -> None:
    torch.testing.assert_close(_step(captured(written_and_unread)), _step(written_and_unread))


class Counting(nn.Module):
    """It divides by a count that it has just increased, as running means do."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x / self.count


def test_a_count_is_written_once() -> None:
    """torch.export copies the count into itself afterwards, which eager does not."""
    graph = capture_export(
        Counting(), (torch.rand(3, requires_grad=True),), target=Target(Device.CPU), train=True
    )
    assert len(graph.mutations) == 1


IN_PLACE = ("hardswish", "silu", "elu", "leaky_relu", "hardtanh", "selu", "celu", "relu")


@pytest.mark.parametrize("name", IN_PLACE)
def test_an_activation_that_writes_over_its_argument_is_no_write_over_a_needed_value(name: str) -> None:
    """Autograd keeps what it needs of an argument that an op itself writes over."""

    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):  # a tracer takes the ops of such calls apart
            x = x * 2
        return getattr(F, name)(F.layer_norm(x, (3,)), inplace=True).square().sum()

    expected = _step(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error", EagerWarning)
        torch.testing.assert_close(_step(longhand.compile(function)), expected, rtol=1e-4, atol=1e-4)
