"""Layers that end in a norm, in training: each is given the norm before it backwards, and what that norm was of."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from tests.same_gradients import assert_same_gradients


class Layer(nn.Module):
    """The sum is normalized at the end, as in the first transformers: what follows reads only the norm."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(16, 32), nn.Linear(32, 16), nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.down(torch.tanh(self.up(x))))


class Stack(nn.Module):
    def __init__(self, n_layers: int = 3) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(11, 16), nn.LayerNorm(16)
        self.layers = nn.ModuleList(Layer() for _ in range(n_layers))
        self.head = nn.Linear(16, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.embed(tokens))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Frozen(Stack):
    """No gradient tells that the norm's weights are the caller's parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.norm.requires_grad_(False)


def texts_of(model: nn.Module, folder: Path, device: str = "cpu") -> tuple[str, str]:
    arch = "sm_90" if device == "cuda" else None
    tokens = torch.randint(11, (2, 7))
    longhand.generate(model.train(), (tokens,), out=folder, device=device, arch=arch, train=True)
    return (folder / "model.py").read_text(), (folder / "backward.py").read_text()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("n_layers", [3, 6])
def test_each_layer_saves_one_record(n_layers: int, device: str, tmp_path: Path) -> None:
    model, _ = texts_of(Stack(n_layers), tmp_path / "unit", device)
    assert "one_for_each" not in model and "saved_layers.append(saved)" in model, model
    assert "saved = LayerSaved(" in model and model.count(".append(") == 1
    assert "Only the backward pass reads" in model  # of what the layer is given to save


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_norm_before_is_a_module(device: str, tmp_path: Path) -> None:
    _, backward = texts_of(Stack(), tmp_path / "unit", device)
    assert "norms = [model.norm, *(layer.norm for layer in model.layers)]" in backward, backward
    assert "def layer_backward(layer, saved, previous_norm, d_" in backward
    assert "saved.layers.pop(), norms[layer], d_" in backward
    assert "saved.previous" not in backward and "previous_norm.weight" in backward
    says = "Ends with the derivative of the previous layer's norm; the first one with that of norm."
    assert says in backward


@pytest.mark.parametrize("model", [Stack(2), Stack(5), Frozen()], ids=["two", "five", "frozen"])
def test_gradients_are_the_models(model: nn.Module, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, tokens = model.train(), torch.randint(11, (2, 7))
    longhand.generate(model, (tokens,), out=tmp_path / "unit", train=True)
    assert_same_gradients(model, tmp_path / "unit", tokens)


def test_what_is_not_trained_is_saved(tmp_path: Path) -> None:
    _, backward = texts_of(Frozen(), tmp_path / "unit")
    assert "norms = [" not in backward
