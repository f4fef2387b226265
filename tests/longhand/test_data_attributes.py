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
