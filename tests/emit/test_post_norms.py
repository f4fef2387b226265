"""Training of layers that end with a norm, as BERT's do: the backward pass of every layer is one call."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from tests.same_gradients import assert_same_gradients


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.mix = (nn.Linear(16, 16) for _ in range(3))
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
        self.attention_norm, self.norm = nn.LayerNorm(16), nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = self.mix(torch.sigmoid(self.query(x)) * self.key(x).cumsum(1))
        x = self.attention_norm(x + mixed)
        return self.norm(x + self.down(torch.tanh(self.up(x))))


class Encoder(nn.Module):
    """The norm of the embeddings stands before all layers, as each layer's before the next one."""

    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.norm = nn.LayerNorm(16)
        self.layers = nn.ModuleList(Layer() for _ in range(n_layers))
        with torch.no_grad():  # no two layers have equal weights
            for parameter in self.parameters():
                parameter.add_(0.2 * torch.randn(parameter.shape))

    def forward(self, tokens: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        x = self.embed(tokens)
        x = self.norm(x if memory is None else x + memory)
        for layer in self.layers:
            x = layer(x)
        return x[:, 0]


class Pair(nn.Module):
    """Two lists of such layers in one function."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.speech = Encoder(3), Encoder(3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.text(tokens, self.speech(tokens)[:, None])


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[nn.Module, Path]]:
    found = {}
    for n_layers in (2, 4):
        torch.manual_seed(0)
        model = Encoder(n_layers).train()
        folder = tmp_path_factory.mktemp("units") / f"of_{n_layers}"
        longhand.generate(model, (torch.randint(11, (2, 9)),), out=folder, device="cpu", train=True)
        found[n_layers] = model, folder
    return found


def test_every_layer_is_in_the_loop(units: dict[int, tuple[nn.Module, Path]]) -> None:
    texts = {n_layers: (folder / "backward.py").read_text() for n_layers, (_, folder) in units.items()}
    for n_layers, text in texts.items():
        assert "for layer in reversed(range(len(saved.layers))):" in text
        flat = " ".join(text.split())
        assert '"previous norm.weight": d_previous_norm_weight' in flat  # by the norm's own layer
        assert '**of_layers("layers", d_layers)' in flat
        assert f'"layers.{n_layers - 1}.norm.weight": d_layer_{n_layers - 1}_norm_weight' in flat
    assert abs(texts[4].count("\n") - texts[2].count("\n")) <= 4


def test_each_of_two_lists_has_its_own_norms(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Pair().train()
    longhand.generate(model, (torch.randint(11, (2, 9)),), out=tmp_path / "unit", device="cpu", train=True)
    assert_same_gradients(model, tmp_path / "unit", torch.randint(11, (2, 9)), rtol=1e-3, atol=1e-4)
    text = (tmp_path / "unit/backward.py").read_text()
    bound = [line.split(" = ")[0].strip() for line in text.splitlines() if "norms = [" in line]
    assert sorted(bound) == ["speech_norms", "text_norms"]


@pytest.mark.parametrize("n_layers", [2, 4])
def test_gradients_are_the_models(units: dict[int, tuple[nn.Module, Path]], n_layers: int) -> None:
    model, folder = units[n_layers]
    assert_same_gradients(model, folder, torch.randint(11, (2, 9)), rtol=1e-3, atol=1e-4)
