"""Layers of several kinds in turn: a function for each kind, a loop over the rounds, and the same results."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from benchmarks.readability.units import text_of
from tests.same_gradients import assert_same_gradients, unit_of


class Layer(nn.Module):
    """Attention over a window, or over everything."""

    def __init__(self, window: int | None) -> None:
        super().__init__()
        self.window = window
        self.ln = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.ln(x)).chunk(3, -1)
        scores = q @ k.transpose(-2, -1) / 4
        if self.window is not None:
            places = torch.arange(x.shape[1])
            is_near = (places[:, None] - places[None, :]).abs() < self.window
            scores = scores.masked_fill(~is_near, float("-inf"))
        x = x + self.out(torch.softmax(scores, -1) @ v)
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


class Gated(nn.Module):
    """A layer of another kind altogether."""

    def __init__(self) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(16)
        self.gate = nn.Linear(16, 24, bias=False)
        self.value = nn.Linear(16, 24, bias=False)
        self.out = nn.Linear(24, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.ln(x)
        mixed = torch.sigmoid(self.gate(hidden)) * self.value(hidden).cumsum(1)
        return x + self.out(mixed)


def windows(n_layers: int) -> list[nn.Module]:
    return [Layer(None if number % 2 else 3) for number in range(n_layers)]


def one_of_three(n_layers: int) -> list[nn.Module]:
    return [Layer(None) if number % 3 == 2 else Gated() for number in range(n_layers)]


class Stack(nn.Module):
    """The layers; the first one's norm may be fused with what is before them."""

    def __init__(self, layers: list[nn.Module], begins_alike: bool) -> None:
        super().__init__()
        self.begins_alike = begins_alike
        self.embed = nn.Linear(16, 16)
        self.layers = nn.ModuleList(layers)
        self.ln = nn.LayerNorm(16)
        with torch.no_grad():  # no two layers have equal weights
            for parameter in self.parameters():
                parameter.add_(0.2 * torch.randn(parameter.shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        x = x if self.begins_alike else torch.tanh(x)
        for layer in self.layers:
            x = layer(x)
        return self.ln(x)


KINDS = [(windows, 2), (one_of_three, 3)]


def stack(make, n_layers: int, begins_alike: bool = True) -> tuple[Stack, torch.Tensor]:
    torch.manual_seed(0)
    return Stack(make(n_layers), begins_alike), torch.randn(2, 9, 16)


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("make", "period"), KINDS)
def test_more_rounds_are_no_more_lines(make, period: int, device: str, train: bool, tmp_path: Path) -> None:
    counts, statements, kernels = [], [], []
    for n_rounds in (1, 3, 4):
        model, x = stack(make, n_rounds * period)
        call = (model.train(train), (x,), {})
        if n_rounds == 3:  # its kernels are compiled, and those of more rounds are the same
            folder, arch = tmp_path / "unit", "sm_90" if device == "cuda" else None
            longhand.generate(*call, out=folder, device=device, arch=arch, train=train)
            texts = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.py")}
        else:
            texts = text_of(call, device, train=train)
        files = [texts[path] for path in ("model.py", "backward.py")[: 1 + train]]
        counts.append(sum(text.count("\n") for text in files))
        statements.append(
            sum(isinstance(one, ast.stmt) for text in files for one in ast.walk(ast.parse(text)))
        )
        kernels.append({path: text for path, text in texts.items() if path.startswith("kernels/")})
    assert statements[1] == statements[2], "a line may wrap: layers[11] is longer than layers[8]"
    assert counts[1] <= 1.3 * counts[0]
    of_three, of_four = ({path for path in some if path.endswith(".py")} for some in kernels[1:])
    assert of_three == of_four


@pytest.mark.parametrize(("make", "period"), KINDS)
@pytest.mark.parametrize(("more", "begins_alike"), [(0, False), (1, True)])
def test_results_and_gradients_are_the_models(
    make, period: int, more: int, begins_alike: bool, tmp_path: Path
) -> None:
    model, x = stack(make, 4 * period + more, begins_alike)
    longhand.generate(model.eval(), (x,), out=tmp_path / "unit", device="cpu")
    with torch.no_grad():
        torch.testing.assert_close(unit_of(model, tmp_path / "unit")(x), model(x), rtol=1e-4, atol=1e-5)
    assert "for layer in range(" in (tmp_path / "unit" / "model.py").read_text()

    longhand.generate(model.train(), (x,), out=tmp_path / "trained", device="cpu", train=True)
    assert_same_gradients(model, tmp_path / "trained", x, rtol=1e-3, atol=1e-4)
    text = (tmp_path / "trained" / "backward.py").read_text()
    assert "for layer in reversed(range(" in text
