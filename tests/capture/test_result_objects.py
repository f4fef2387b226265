"""A result that shows all of another tensor is a tensor object of its own: what is done to it is not done to that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.emit.unit.loading import load_unit

Call = Callable[[torch.Tensor], torch.Tensor]

ANEW: dict[str, Call] = {
    "detach": lambda x: x.detach(),
    "slice": lambda x: x[:],
    "view": lambda x: x.view(2, 3),
    "there and back": lambda x: x.t().t(),
    "expand": lambda x: x.expand(2, 3),
    "squeeze": lambda x: x.squeeze(),
}
ITSELF: dict[str, Call] = {
    "contiguous": lambda x: x.contiguous(),
    "to": lambda x: x.to(torch.float32),
    "in place": lambda x: x.mul_(2),
    "dropout": lambda x: nn.functional.dropout(x, 0.5, training=False),
}


class Module(nn.Module):
    """What a call returns, and the same of what it computes."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return self.call(x), y, self.call(y)


def same(given: torch.Tensor, results: tuple[torch.Tensor, ...]) -> list[bool]:
    every = (given, *results)
    objects = [one is other for one in every for other in every]
    memory = [one.untyped_storage().data_ptr() for one in every]
    return [*objects, *[one == other for one in memory for other in memory]]


@pytest.mark.parametrize("frontend", ["bytecode", "dynamo"])
@pytest.mark.parametrize("name", [*ANEW, *ITSELF])
def test_a_compiled_call_gives_the_objects_that_eager_gives(name: str, frontend: str) -> None:
    call = (ANEW | ITSELF)[name]
    x, other = torch.ones(2, 3), torch.ones(2, 3)
    result = longhand.compile(lambda x: (call(x), x * 2), frontend=frontend)(x)[0]
    expected = call(other)
    assert (result is x) == (expected is other) == (name in ITSELF)
    assert (result._base is x) == (expected._base is other)
    result.requires_grad_()
    assert x.requires_grad == (name in ITSELF)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", ["detach", "slice", "there and back", "contiguous"])
def test_so_does_a_unit(tmp_path: Path, name: str, train: bool) -> None:
    module, x = Module((ANEW | ITSELF)[name]), torch.ones(2, 3)
    longhand.generate(module, (x.clone().requires_grad_(train),), out=tmp_path / "unit", train=train)
    found, expected = x.clone().requires_grad_(train), x.clone().requires_grad_(train)
    unit = load_unit(tmp_path / "unit")()
    assert same(found, unit(found)) == same(expected, module(expected))
