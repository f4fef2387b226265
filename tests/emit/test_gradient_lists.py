"""The gradients of many layers: told once for all of them, and what they add up to does not divide the layers."""

from __future__ import annotations

import ast
from pathlib import Path

import torch
from torch import nn

import longhand
from longhand.emit.module.gradient_lists import write_gradients
from longhand.schedule.layers.returned_gradients import group_gradients
from longhand.schedule.named_plan import Reached
from tests.same_gradients import assert_same_gradients


def returned_gradients(texts: list[str], paths: list[str]) -> list[str]:
    return write_gradients(group_gradients(texts, paths), texts)


def test_gradients_from_the_same_places_of_each_layer_are_told_once() -> None:
    texts: list[str] = ["d_embed"]
    paths = ["embed.weight"]
    for layer in range(1, 5):  # the first weight's gradient is made where the layer before it is
        texts += [Reached("d_h", layer - 1, 3), Reached("d_h", layer, 0), Reached("d_h", layer, 1)]
        paths += [f"h.{layer}.{name}.weight" for name in ("q", "k", "v")]
    assert returned_gradients(texts, paths) == [
        "d_embed",
        "*(gradient for layer in range(1, 5) for gradient in (d_h[layer - 1][3], *d_h[layer][0:2]))",
    ]


def test_two_layers_and_layers_that_differ_are_told_one_by_one() -> None:
    texts = [Reached("d_h", layer, place) for layer, place in ((0, 0), (1, 1), (2, 0), (3, 1), (4, 1))]
    paths = [f"h.{layer}.weight" for layer in range(5)]
    assert returned_gradients(texts, paths) == texts


def test_layers_that_are_every_second_of_a_list_are_counted_in_twos() -> None:
    """Between two linear layers of a Sequential is an activation, which has a number and no gradients."""
    texts = [Reached("d_l", layer, place) for layer in (2, 4, 6) for place in (0, 1)]
    paths = [f"l.{layer}.{name}" for layer in (2, 4, 6) for name in ("weight", "bias")]
    assert returned_gradients(texts, paths) == [
        "*(gradient for layer in range(2, 7, 2) for gradient in d_l[layer])"
    ]
    unevenly = [Reached("d_l", layer, 0) for layer in (0, 2, 3)]
    assert returned_gradients(unevenly, [f"l.{layer}.weight" for layer in (0, 2, 3)]) == [
        unevenly[0],
        "*(gradient for layer in range(2, 4) for gradient in d_l[layer])",
    ]


class Activated(nn.Module):
    """Linear layers and activations in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[part for _ in range(5) for part in (nn.Linear(8, 8), nn.ReLU())])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def test_a_list_of_linear_layers_and_activations_has_eagers_gradients(tmp_path: Path) -> None:
    model, x = Activated(), torch.randn(3, 8)
    longhand.generate(model, (x,), out=tmp_path / "unit", train=True, run=False)
    assert "range(2, 9, 2)" in (tmp_path / "unit" / "backward.py").read_text()
    unit = longhand.load(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    unit(x).sum().backward()
    model(x).sum().backward()
    for parameter, other in zip(model.parameters(), unit.parameters(), strict=True):
        torch.testing.assert_close(other.grad, parameter.grad)


class Cross(nn.Module):
    """A layer that reads what all layers read, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.k, self.v, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        return x + self.out(torch.tanh(self.norm(x) * self.k(memory)) * self.v(memory))


class Decoder(nn.Module):
    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.encode = nn.Linear(8, 8)
        self.layers = nn.ModuleList(Cross() for _ in range(n_layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        memory = self.encode(x)
        for layer in self.layers:
            x = layer(x, memory)
        return x


def test_a_sum_over_all_layers_gradients_divides_no_loop(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Decoder(9).train(), torch.randn(2, 5, 8)
    longhand.generate(model, (x,), out=tmp_path / "unit", train=True)
    tree = ast.parse((tmp_path / "unit" / "backward.py").read_text())
    functions = [one.name for one in tree.body if isinstance(one, ast.FunctionDef)]
    assert functions == ["cross_backward", "decoder_backward"]
    loops = [one for one in ast.walk(tree) if isinstance(one, ast.For)]
    assert len(loops) == 1
    assert_same_gradients(model, tmp_path / "unit", x)
