"""What is written through ``data`` after it was read: in a unit where no backward pass comes to the read."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import longhand
from longhand.errors import EagerWarning


class Codebook(nn.Module):
    """Its vectors move to what they were the nearest of, as those of a quantizer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 4))
        self.register_buffer("codes", torch.randn(6, 4, generator=torch.Generator().manual_seed(1)))

    def move(self, x: torch.Tensor, places: torch.Tensor) -> None:
        with torch.no_grad():
            chosen = nn.functional.one_hot(places, 6).to(x.dtype)
            self.codes.data.mul_(0.5).add_(chosen.t() @ x, alpha=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.scale
        places = torch.cdist(x, self.codes).argmin(1)
        codes = self.codes[places]
        self.move(x, places)
        return x + (codes - x).detach() * x.sum()


class Masked(Codebook):
    """The mask is an intermediate that the backward pass reads: of the old codes, not of the new ones."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = x * self.scale * (self.codes[:5] > 0)
        self.codes.data.neg_()
        return result


class ScaledWithoutGradients(Codebook):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            factor = self.codes[:5].exp()
        result = (x * self.scale * factor).sin()
        self.codes.data.neg_()
        return result


class ReadByADerivative(Codebook):
    """Eager's backward pass finds the new codes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = x * self.scale * self.codes[:5]
        self.codes.data.add_(1)
        return result


class ReadAgain(Codebook):
    """Eager looks at the new codes when it computes the part again."""

    def part(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() * (self.codes[:5] > 0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = checkpoint(self.part, x * self.scale, use_reentrant=False).cos()
        self.codes.data.neg_()
        return result


class WrittenInPlace(Codebook):
    """The read's result goes into a tensor that was there before."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = x * self.scale
        result.add_(x * self.scale * self.codes[:5])
        self.codes.data.add_(1)
        return result


IN_A_UNIT = [Codebook, Masked, ScaledWithoutGradients]
EAGERS = [ReadByADerivative, ReadAgain, WrittenInPlace]


@pytest.mark.parametrize("frontend", ["bytecode", "dynamo"])
@pytest.mark.parametrize("kind", IN_A_UNIT + EAGERS)
def test_steps_are_eagers(kind: type[Codebook], frontend: str) -> None:
    eager, compiled = kind(), kind()
    run = longhand.compile(compiled, frontend=frontend, options={"strict": kind in IN_A_UNIT})
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EagerWarning)
        for _ in range(3):
            start, steps = torch.randn(5, 4), list[tuple[Any, ...]]()
            for module, call in ((eager, eager), (compiled, run)):
                module.scale.grad, x = None, start.clone().requires_grad_()
                result = call(x)
                result.square().sum().backward()
                steps.append((result.detach(), x.grad, module.scale.grad, module.codes.clone()))
            torch.testing.assert_close(*steps)
