"""What every layer both returns to the caller and saves for its backward pass: a cache of keys and values."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import longhand


class Layer(nn.Module):
    """Its keys and values are results of the model, and attention's derivative reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        normed = self.norm(x)
        keys, values = torch.sin(self.k(normed)), torch.cos(self.v(normed))
        x = x + F.scaled_dot_product_attention(self.q(normed), keys, values)
        return x + self.down(F.gelu(self.up(x))), keys, values


class Stack(nn.Module):
    """Returns the cache of all layers."""

    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(n_layers))
        self.norm = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        cache = []
        for layer in self.layers:
            x, keys, values = layer(x)
            cache += [keys, values]
        return (self.norm(x), *cache)


@pytest.mark.parametrize("n_layers", [2, 4, 6])
def test_what_layers_save_may_be_a_result_too(n_layers: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Stack(n_layers), torch.randn(2, 8, 16)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu", train=True, frontend="bytecode")
    ours = longhand.load(tmp_path / "unit")()
    ours.load_state_dict(model.state_dict())
    given, expected = ours(x), model(x)
    torch.testing.assert_close(given, expected)
    for results in (given, expected):
        sum(result.square().mean() for result in results).backward()
    gradients = [parameter.grad for parameter in ours.parameters()]
    torch.testing.assert_close(gradients, [parameter.grad for parameter in model.parameters()])
