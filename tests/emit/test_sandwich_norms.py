"""Training of layers with norms before and after what they add: the sums that they pass on are kept, not made again."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import longhand
from tests.same_gradients import assert_same_gradients


class Layer(nn.Module):
    """Kinds in turn; what is added is normed, so it is kept for that norm's derivative."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.before, self.between, self.after, self.last = (nn.RMSNorm(16) for _ in range(4))
        self.mix, self.up, self.down = nn.Linear(16, 16), nn.Linear(16, 32), nn.Linear(32, 16)
        self.is_cumulative = bool(number % 2)

    def forward(self, x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        mixed = self.before(x) * table
        mixed = mixed.cumsum(1) if self.is_cumulative else mixed.flip(1)
        x = x + self.between(self.mix(mixed))
        return x + self.last(self.down(torch.tanh(self.up(self.after(x)))))


class Stack(nn.Module):
    """All layers read one table, which is computed again in the backward pass."""

    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.layers = nn.ModuleList(map(Layer, range(n_layers)))
        self.norm = nn.RMSNorm(16)
        self.angles = nn.Buffer(torch.rand(16))
        with torch.no_grad():  # no two layers have equal weights
            for parameter in self.parameters():
                parameter.add_(0.2 * torch.randn(parameter.shape))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        table = torch.cos(torch.outer(torch.arange(9.0), self.angles))
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, table)
        return self.norm(x)


def test_more_layers_are_few_more_lines_and_gradients_are_right(tmp_path: Path) -> None:
    torch.manual_seed(0)
    counts = []
    for n_layers in (6, 8):
        model, tokens = Stack(n_layers), torch.randint(11, (2, 9))
        folder = tmp_path / f"of_{n_layers}"
        longhand.generate(model.train(), (tokens,), out=folder, device="cpu", train=True)
        texts = [(folder / path).read_text() for path in ("model.py", "backward.py")]
        counts.append(sum(text.count("\n") for text in texts))
    assert counts[1] <= 1.05 * counts[0]  # written out, two layers of six are a third more
    assert "for layer in reversed(range(" in texts[1]
    # The weight of the norm that ends the layer before is in the record, too.
    assert "previous_last_weight=previous_last_weight" in texts[0]
    assert "saved.previous_last_weight" in texts[1] and "next_" not in texts[1]
    assert_same_gradients(model, folder, tokens, rtol=1e-3, atol=1e-4)
