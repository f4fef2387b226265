"""Training where the first layer makes what all of them add, and holds its weight, as T5's does: all are one loop."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from tests.same_gradients import assert_same_gradients


class Mix(nn.Module):
    """The first layer looks up a table by distances; all layers are given the result."""

    def __init__(self, has_table: bool) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(16, 16) for _ in range(4))
        self.table = nn.Embedding(7, 1) if has_table else None

    def forward(self, x: torch.Tensor, added: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        if added is None:
            positions = torch.arange(x.shape[1])
            distances = (positions[None, :] - positions[:, None]).clamp(-3, 3) + 3
            added = self.table(distances).permute(2, 0, 1)
        scores = self.query(x) @ self.key(x).transpose(1, 2) + added
        return self.out(scores.softmax(-1) @ self.value(x)), added


class Layer(nn.Module):
    def __init__(self, has_table: bool) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(16), Mix(has_table)

    def forward(self, x: torch.Tensor, added: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        mixed, added = self.mix(self.norm(x), added)
        return x + mixed, added


class Stack(nn.Module):
    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.layers = nn.ModuleList(Layer(not number) for number in range(n_layers))
        self.norm = nn.LayerNorm(16)
        with torch.no_grad():  # no two layers have equal weights
            for parameter in self.parameters():
                parameter.add_(0.2 * torch.randn(parameter.shape))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x, added = self.embed(tokens), None
        for layer in self.layers:
            x, added = layer(x, added)
        return self.norm(x)


@pytest.mark.parametrize("n_layers", [2, 4])
def test_every_layer_is_in_the_loop_and_gradients_are_right(n_layers: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, folder = Stack(n_layers).train(), tmp_path / "unit"
    longhand.generate(model, (torch.randint(11, (2, 9)),), out=folder, device="cpu", train=True)
    text = (folder / "backward.py").read_text()
    assert "for layer in reversed(range(len(saved.layers))):" in text
    # What the table's gradient is made of comes out of the loop, and what makes it stands behind.
    model_backward = text[text.index("def stack_backward") :]
    assert model_backward.index("in reversed(") < model_backward.index("embedding_dense_backward(")
    assert_same_gradients(model, folder, torch.randint(11, (2, 9)), rtol=1e-3, atol=1e-4)
