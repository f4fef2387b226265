"""Layers that end in the norm of the next one: one loop over all of them, the last is given the norm behind it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from tests.emit.test_layers_apart import Layer, Stack, stack
from tests.same_gradients import assert_same_gradients, unit_of


class RmsAtEnd(Stack):
    """The norm behind the layers is another one: no layer's kernel computes it."""

    def __init__(self) -> None:
        super().__init__(3)
        self.norm = nn.RMSNorm(16)


class Projected(nn.Module):
    """A layer whose result is complete before the norm that follows: a library makes it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up, self.down, self.out = nn.Linear(16, 32), nn.Linear(32, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(x + self.down(torch.tanh(self.up(self.norm(x)))))


class ProjectedStack(Stack):
    def __init__(self) -> None:
        super().__init__(0)
        self.layers.extend(Projected() for _ in range(2))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("n_layers", [2, 3, 9])
def test_all_layers_are_one_loop(n_layers: int, device: str, tmp_path: Path) -> None:
    model, tokens = stack(n_layers)
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(model.eval(), (tokens,), out=tmp_path / "unit", device=device, arch=arch)
    text = (tmp_path / "unit" / "model.py").read_text()
    assert "norms = [*(layer.norm for layer in self.layers), self.norm]" in text
    assert "for block, next_norm in zip(self.layers, norms[1:], strict=True):" in text
    assert "hidden, x = block(hidden, x, next_norm.weight, next_norm.bias)" in text
    assert "self.layers[1]" not in text and text.count(".down.weight") == 1
    launched = re.findall(r"kernels\.(\w*norm\w*)\(", text)
    assert len(launched) == 2, launched  # of the first layer, and of what comes next


@pytest.mark.parametrize("n_layers", [2, 9])
def test_they_compute_what_the_model_does(n_layers: int, tmp_path: Path) -> None:
    model, tokens = stack(n_layers)
    longhand.generate(model.eval(), (tokens,), out=tmp_path / "unit")
    torch.testing.assert_close(unit_of(model, tmp_path / "unit")(tokens), model(tokens))


@pytest.mark.parametrize("n_layers", [2, 4])
def test_each_saves_what_it_was_given_and_made(n_layers: int, tmp_path: Path) -> None:
    model, tokens = stack(n_layers)
    longhand.generate(model.train(), (tokens,), out=tmp_path / "unit", train=True)
    text = (tmp_path / "unit" / "model.py").read_text()
    assert "in zip(self.layers, norms[1:], strict=True):" in text
    assert_same_gradients(model, tmp_path / "unit", tokens)


def test_another_norm_at_the_end_stays_apart(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, tokens = RmsAtEnd(), torch.randint(11, (2, 7))
    longhand.generate(model.eval(), (tokens,), out=tmp_path / "unit")
    assert "norms[" not in (tmp_path / "unit" / "model.py").read_text()
    torch.testing.assert_close(unit_of(model, tmp_path / "unit")(tokens), model(tokens))


def test_the_last_norm_leaves_its_argument_as_the_others_do(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, tokens = ProjectedStack(), torch.randint(11, (2, 7))
    longhand.generate(model.eval(), (tokens,), out=tmp_path / "unit")
    text = (tmp_path / "unit" / "model.py").read_text()
    assert "in zip(self.layers, norms[1:], strict=True):" in text
    torch.testing.assert_close(unit_of(model, tmp_path / "unit")(tokens), model(tokens))


def test_a_layer_says_what_it_ends_with(tmp_path: Path) -> None:
    model, tokens = stack(2)
    longhand.generate(model.eval(), (tokens,), out=tmp_path / "unit")
    text = (tmp_path / "unit" / "model.py").read_text()
    assert '"""Ends with the next layer\'s norm; the last one with norm."""' in text
    assert Layer.__name__ in text
