"""What a checkpointed region writes into, eager writes twice: in the call, and again in its backward pass."""

from __future__ import annotations

import contextlib
import copy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import longhand
from longhand.capture.autograd.kept.costs import checkpoint as checkpoint_of
from longhand.capture.frontends.export import capture_export
from longhand.compiled.from_bytecode import captured
from longhand.errors import CaptureError, EagerWarning
from longhand.options import Device, Target


class Checkpointed(nn.Module):
    """Statistics, a parameter that is used outside, too, and a write into what the region makes."""

    def __init__(self, *, norm: bool, use_reentrant: bool = False) -> None:
        super().__init__()
        self.inner, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4) if norm else nn.Identity()
        self.use_reentrant = use_reentrant

    def part(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.norm(self.inner(x))) * self.last.bias
        return torch.dropout(y, 0.5, True).mul_(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(checkpoint(self.part, x.sin(), use_reentrant=self.use_reentrant)) * 2


def _seen(run: nn.Module, model: nn.Module) -> dict[str, torch.Tensor | None]:
    torch.manual_seed(0)
    x = torch.randn(5, 4, requires_grad=True)
    out = run(x)
    out.square().sum().backward()
    found = {name: value.clone() for name, value in model.named_buffers()}
    return found | {"out": out.detach(), "x": x.grad} | {n: p.grad for n, p in model.named_parameters()}


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_statistics_are_written_twice(use_reentrant: bool) -> None:
    model = Checkpointed(norm=True, use_reentrant=use_reentrant)
    ours = copy.deepcopy(model)
    with pytest.warns(EagerWarning, match="writes under torch.utils.checkpoint into a tensor from outside"):
        found = _seen(captured(ours), ours)
    assert found["norm.num_batches_tracked"] == 2
    torch.testing.assert_close(found, _seen(model, model))


@pytest.mark.filterwarnings("error::longhand.errors.EagerWarning")
def test_what_the_region_made_may_be_written() -> None:
    model = Checkpointed(norm=False)
    ours = copy.deepcopy(model)
    torch.testing.assert_close(_seen(captured(ours), ours), _seen(model, model))


def test_no_unit_is_made_that_would_write_once(tmp_path: Path) -> None:
    model = Checkpointed(norm=True)
    with pytest.raises(
        CaptureError, match=r"test_checkpointed_writes.py:\d+: .*writes under torch.utils.checkpoint"
    ):
        longhand.generate(model, (torch.randn(5, 4),), out=tmp_path / "unit", train=True)
    assert not (tmp_path / "unit").exists()


class Nested(nn.Module):
    """A region, and one inside another."""

    def __init__(self, *, nested: bool) -> None:
        super().__init__()
        self.linear, self.nested = nn.Linear(4, 4), nested

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x)).exp()

    def part(self, x: torch.Tensor) -> torch.Tensor:
        if self.nested:
            return checkpoint(self.inner, x.cos(), use_reentrant=False).sin()
        return self.inner(x.cos()).sin()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.part, x.exp(), use_reentrant=False).square()


def test_what_torch_export_traces_under_a_checkpoint_is_marked(tmp_path: Path) -> None:
    model, x = Nested(nested=False), torch.rand(3, 4, requires_grad=True)
    graph = capture_export(model, (x,), target=Target(Device.CPU), train=True).graph
    marks = {str(n.target): checkpoint_of(n) for n in graph.nodes if n.op == "call_function" and n.users}
    assert marks["aten.tanh.default"] == marks["aten.sin.default"] == 1 and marks["aten.square.default"] == 0
    longhand.generate(model, (x,), out=tmp_path / "unit", train=True)


@pytest.mark.parametrize("frontend", ["export", "bytecode"])
def test_a_checkpoint_in_another_one(tmp_path: Path, frontend: str) -> None:
    model, x = Nested(nested=True), torch.rand(3, 4, requires_grad=True)
    refused = pytest.raises(
        CaptureError, match=r"inside a part that is checkpointed itself.* --frontend bytecode"
    )
    with refused if frontend == "export" else contextlib.nullcontext():
        longhand.generate(model, (x,), out=tmp_path / "unit", train=True, frontend=frontend)
