"""Stacks whose layers are not all alike in the code: what repeats is a loop all the same, and computes the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from tests.same_gradients import assert_same_gradients


class Residual(nn.Module):
    """A layer that divides by a number which it writes out as a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.sqrt(torch.tensor(16, dtype=torch.float))
        hidden = (self.up(self.norm(x)) / scale).mT.contiguous().mT
        return x + self.down(F.gelu(hidden.cumsum(-1)))


class Picks(nn.Module):
    """Each token goes to one of four experts, in the order of the experts; the way back is made from a range."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.router = nn.Linear(16, 4)
        self.up = nn.Linear(16, 16)
        self.down = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(x)
        order = torch.sort(self.router(hidden).argmax(-1), stable=True).indices
        back = torch.empty_like(order)
        back[order] = torch.arange(order.shape[0])
        gathered = self.up(hidden)[order].cumsum(0)
        return x + self.down(gathered[back].tanh())


class Tanh(nn.Module):
    """Another kind of layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.gate = nn.Linear(16, 16, bias=False)
        self.out = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(x)
        return x + self.out(torch.tanh(self.gate(hidden)) * hidden)


def equal(n_layers: int) -> list[nn.Module]:
    return [Residual() for _ in range(n_layers)]


def dense_first(n_layers: int) -> list[nn.Module]:
    return [Tanh(), *(Picks() for _ in range(n_layers - 1))]


class Stack(nn.Module):
    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(16)
        with torch.no_grad():  # no two layers have equal weights
            for parameter in self.parameters():
                parameter.add_(0.2 * torch.randn(parameter.shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


STACKS = [equal, dense_first]


def stack(make: Callable[[int], list[nn.Module]], n_layers: int) -> tuple[Stack, torch.Tensor]:
    torch.manual_seed(0)
    return Stack(make(n_layers)), torch.randn(6, 16)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("make", STACKS)
def test_more_layers_are_no_more_lines(
    make: Callable[[int], list[nn.Module]], device: str, tmp_path: Path
) -> None:
    counts = []
    for n_layers in (6, 12):
        model, x = stack(make, n_layers)
        folder = tmp_path / str(n_layers)
        arch = "sm_90" if device == "cuda" else None
        longhand.generate(model.eval(), (x,), out=folder, device=device, arch=arch)
        counts.append((folder / "model.py").read_text().count("\n"))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("make", STACKS)
def test_gradients_are_the_models(make: Callable[[int], list[nn.Module]], tmp_path: Path) -> None:
    model, x = stack(make, 8)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu", train=True)
    assert_same_gradients(model, tmp_path / "unit", x, rtol=1e-4, atol=1e-5)
