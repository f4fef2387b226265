"""Layers whose end is fused with the beginning of the next: a loop that gives the weight of the block before."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from tests.same_gradients import assert_same_gradients, unit_of


class Scaled(nn.Module):
    """A layer scale, which becomes one kernel with the next layer's norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)
        self.scale = nn.Parameter(torch.randn(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.scale * self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class NormedTwice(Scaled):
    """A norm behind the layer, whose weight meets that of the next layer's."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(super().forward(x))


class Stack(nn.Module):
    def __init__(self, layer: Callable[[], nn.Module], n_layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer() for _ in range(n_layers))
        with torch.no_grad():  # no two layers have equal weights
            for parameter in self.parameters():
                parameter.add_(0.2 * torch.randn(parameter.shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def stack(layer: Callable[[], nn.Module], n_layers: int) -> tuple[Stack, torch.Tensor]:
    torch.manual_seed(0)
    return Stack(layer, n_layers), torch.randn(4, 16)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("layer", [Scaled, NormedTwice])
def test_the_loop_gives_the_weight_of_the_block_before(
    layer: Callable[[], nn.Module], device: str, tmp_path: Path
) -> None:
    texts = []
    for n_layers in (4, 9):
        model, x = stack(layer, n_layers)
        folder = tmp_path / str(n_layers)
        arch = "sm_90" if device == "cuda" else None
        longhand.generate(model.eval(), (x,), out=folder, device=device, arch=arch)
        texts.append((folder / "model.py").read_text())
    assert re.search(r"self\.layers\[layer\]\([^)]*self\.layers\[layer - 1\]\.", texts[1])
    n_lines = [text.count("\n") for text in texts]
    assert n_lines[0] == n_lines[1]
    assert texts[1].count(".up.weight") == 2, "in the class, and where the first layer begins"


@pytest.mark.parametrize("layer", [Scaled, NormedTwice])
def test_what_it_computes_is_the_models(layer: Callable[[], nn.Module], tmp_path: Path) -> None:
    model, x = stack(layer, 6)
    longhand.generate(model.eval(), (x,), out=tmp_path / "unit", device="cpu")
    with torch.no_grad():
        torch.testing.assert_close(unit_of(model, tmp_path / "unit")(x), model(x))


@pytest.mark.parametrize("layer", [Scaled, NormedTwice])
def test_gradients_are_the_models(layer: Callable[[], nn.Module], tmp_path: Path) -> None:
    model, x = stack(layer, 6)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu", train=True)
    assert_same_gradients(model, tmp_path / "unit", x, rtol=1e-4, atol=1e-5)
    text = (tmp_path / "unit" / "backward.py").read_text()
    # A layer's function returns what the caller gets.
    assert not re.search(r"\b\w+\[\d+\]\[\d+\]\.reshape", text)


class Cross(nn.Module):
    """A layer that reads what all layers read: each has a part of its gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.q = nn.Linear(16, 16)
        self.k = nn.Linear(16, 16)
        self.up = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(self.q(self.norm(x)) @ self.k(memory).transpose(-2, -1), -1)
        x = x + weights @ memory
        return x + torch.tanh(self.up(x))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(16, 16)
        self.layers = nn.ModuleList(Cross() for _ in range(6))

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        memory = torch.tanh(self.embed(memory))
        for layer in self.layers:
            x = layer(x, memory)
        return x


def test_parts_of_a_gradient_are_gathered_from_the_layers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x, memory = Decoder(), torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    longhand.generate(model, (x, memory), out=tmp_path / "unit", device="cpu", train=True)
    assert_same_gradients(model, tmp_path / "unit", x, memory, rtol=1e-4, atol=1e-5)
    text = (tmp_path / "unit" / "backward.py").read_text()
    gathered = re.findall(r"^        (every_\w+)\.append\((\w+)\)$", text, re.M)
    assert len(gathered) == 2, "of the keys and of the values"
    assert len(re.findall("= cross_backward\\(", text)) == 1
