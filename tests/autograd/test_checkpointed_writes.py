"""What a checkpointed region writes into, eager writes twice: in the call, and again in its backward pass."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from longhand.compiled.from_bytecode import captured
from longhand.errors import EagerWarning


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
