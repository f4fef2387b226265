"""What is written through ``data`` is written behind autograd's back, compiled as in eager."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import longhand


class Moving(nn.Module):
    """Its weight and a buffer move with each call, after they were used."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("n_calls", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.weight * x + self.mean * x
        self.weight.data.add_(1)
        self.mean.data.view(-1)[0] += 2
        self.n_calls.data.add_(1)
        return result * 2 if int(self.n_calls) > 2 else result


@pytest.mark.parametrize("frontend", ["bytecode", "dynamo"])
def test_a_weight_that_is_written_through_its_data_is_still_differentiated(frontend):
    """Dynamo looks at the number of calls in eager; what it breaks off there is not of interest."""
    eager, compiled = Moving(), Moving()
    run = longhand.compile(compiled, frontend=frontend)
    for number in range(4):
        grads = []
        for module, call in ((eager, eager), (compiled, run)):
            x = torch.full((3,), number + 1.0, requires_grad=True)
            module.weight.grad = None
            result = call(x)
            result.sum().backward()
            grads.append((result.detach(), x.grad, module.weight.grad))
        torch.testing.assert_close(grads[0], grads[1])
        for one, other in zip(eager.state_dict().values(), compiled.state_dict().values(), strict=True):
            assert torch.equal(one, other) and one._version == other._version
    assert [one._version for one in eager.parameters()] == [one._version for one in compiled.parameters()]


@pytest.mark.parametrize("frontend", ["bytecode", "dynamo"])
def test_data_that_is_only_read_is_compiled(frontend):
    weight = nn.Parameter(torch.ones(3))
    seen = []

    def call(x):
        return x * weight.data, weight.data

    run = longhand.compile(call, frontend=frontend, options={"strict": True})
    for one in (call, run):
        x = torch.full((3,), 2.0, requires_grad=True)
        result, data = one(x)
        result.sum().backward()
        assert weight.grad is None and not data.requires_grad and data.data_ptr() == weight.data_ptr()
        seen.append((result.detach(), x.grad))
    torch.testing.assert_close(*seen)


class Average(nn.Module):
    """Keeps a running average of what it is given, behind autograd's back."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.register_buffer("average", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.average.data.mul_(0.5).add_(x.detach().mean(0), alpha=0.5)
        return x * self.scale - self.average


class AverageReadBefore(Average):
    """The backward pass finds what was written after it was read: eager's gradient is of the new average."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = x * self.scale * self.average
        self.average.data.mul_(0.5).add_(x.detach().mean(0), alpha=0.5)
        return result


class AverageOfBothKinds(Average):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.average.add_(1)
        return super().forward(x)


class AverageThroughAView(Average):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.average.detach().mul_(0.5).add_(x.detach().mean(0), alpha=0.5)
        return x * self.scale - self.average


@pytest.mark.parametrize("frontend", ["bytecode", "dynamo"])
@pytest.mark.parametrize("kind", [Average, AverageReadBefore, AverageOfBothKinds, AverageThroughAView])
def test_averages(kind, frontend):
    torch.manual_seed(0)
    eager, compiled = kind(), kind()
    is_strict = kind in (Average, AverageThroughAView)
    run = longhand.compile(compiled, frontend=frontend, options={"strict": is_strict})
    for _ in range(3):
        x = torch.randn(5, 3)
        found = []
        for module, call in ((eager, eager), (compiled, run)):
            module.scale.grad = None
            result = call(x)
            result.square().sum().backward()
            found.append((result.detach(), module.scale.grad, module.average))
        torch.testing.assert_close(*found)
        is_counted = [one._version > 0 for one in eager.buffers()]  # how often is eager's own matter
        assert [one._version > 0 for one in compiled.buffers()] == is_counted


@pytest.mark.parametrize("frontend", ["bytecode", "dynamo"])
def test_in_inference_what_was_read_before_is_compiled(frontend):
    torch.manual_seed(0)
    eager, compiled = AverageReadBefore(), AverageReadBefore()
    run = longhand.compile(compiled, frontend=frontend, options={"strict": True})
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(5, 3)
            torch.testing.assert_close(run(x), eager(x))
            torch.testing.assert_close(compiled.average, eager.average)
            assert compiled.average._version == eager.average._version


def test_a_write_through_a_view_of_all_elements_writes_no_positions(tmp_path):
    model = AverageThroughAView()
    longhand.generate(model, (torch.randn(5, 3),), out=tmp_path / "unit", train=True)
    assert "arange" not in (tmp_path / "unit/model.py").read_text()
