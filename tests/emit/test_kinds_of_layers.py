"""Layers of two kinds, one after the other, of one class: two loops, two records, and names that tell them apart."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.schedule.layers.kind_names import kind_name
from tests.same_gradients import assert_same_gradients, unit_of

N_DENSE, N_SORTED = 3, 4


class DeepMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 24), nn.Linear(24, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.tanh(self.up(x)))


class DeepMoE(nn.Module):
    """Reads its rows in an order that data gives: the gradient is added up in zeros that all layers share."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(16, 1), nn.Linear(16, 24), nn.Linear(24, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        order = torch.argsort(self.gate(x).squeeze(-1))
        return self.down(torch.tanh(self.up(x)[order]))


class DeepLayer(nn.Module):
    def __init__(self, is_sorted: bool) -> None:
        super().__init__()
        self.norm, self.norm_2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.mix = nn.Linear(16, 16)
        self.mlp = DeepMoE() if is_sorted else DeepMLP()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.mix(torch.sigmoid(self.norm(x)))
        return x + self.mlp(self.norm_2(x))


class Deep(nn.Module):
    def __init__(self, n_dense: int = N_DENSE, n_sorted: int = N_SORTED) -> None:
        super().__init__()
        kinds = [False] * n_dense + [True] * n_sorted
        self.layers = nn.ModuleList(map(DeepLayer, kinds))
        self.norm = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def _generated(model: nn.Module, x: torch.Tensor, out: Path, train: bool) -> None:
    """A unit for the CPU that does what the model does, in training its gradients, too."""
    longhand.generate(model, (x,), out=out, train=train)
    if train:
        assert_same_gradients(model, out, x)
    else:
        torch.testing.assert_close(unit_of(model, out)(x), model(x))


def _classes(path: Path) -> list[str]:
    return [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]


@pytest.mark.parametrize("train", [False, True])
def test_each_kind_is_a_class_called_after_what_it_alone_holds(train: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    out = tmp_path / "unit"
    _generated(Deep().eval(), torch.randn(5, 16), out, train)
    assert {"DeepMLPLayer", "DeepMoELayer"} <= set(_classes(out / "model.py"))


def test_each_kind_keeps_a_record_and_is_one_function_in_the_backward_pass(tmp_path: Path) -> None:
    torch.manual_seed(0)
    out = tmp_path / "unit"
    _generated(Deep(), torch.randn(5, 16), out, train=True)
    assert {"DeepMLPLayerSaved", "DeepMoELayerSaved"} <= set(_classes(out / "backward.py"))
    text = " ".join((out / "backward.py").read_text().split())
    # Each layer fills what it adds to, the first of them as well: it is no other layer for that.
    assert f"in reversed(range({N_DENSE}, {N_DENSE + N_SORTED})): " in text
    assert text.count(".index_put_(") == 1 and "zip(" not in text


def test_deeper_models_are_hardly_longer(tmp_path: Path) -> None:
    torch.manual_seed(0)
    lengths = []
    for n in (2, 6):
        out = tmp_path / f"unit{n}"
        _generated(Deep(n, n), torch.randn(5, 16), out, train=True)
        lengths.append(sum((out / name).read_text().count("\n") for name in ("model.py", "backward.py")))
    assert lengths[1] <= 1.1 * lengths[0]


def test_a_part_of_the_first_layer_is_the_others_function(tmp_path: Path) -> None:
    """It stands outside the loop, for no gradient of the input is asked for; the record calls its tensors otherwise."""
    torch.manual_seed(0)
    out = tmp_path / "unit"
    _generated(Deep(), torch.randn(5, 16), out, train=True)
    text = (out / "backward.py").read_text()
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    of_part = next(node for node in functions if node.name == "deep_mlp_backward")
    assert "layers[i].mlp" in (ast.get_docstring(of_part) or "")
    called_in = [one.name for one in functions if "deep_mlp_backward(" in ast.unparse(one) and one != of_part]
    assert called_in == ["layer_0_backward", "deep_mlp_layer_backward"]


@pytest.mark.parametrize(
    ("class_name", "held", "name"),
    [
        ("DeepseekV3DecoderLayer", "DeepseekV3MoE", "DeepseekV3MoEDecoderLayer"),
        ("Block", "Bottleneck", "BottleneckBlock"),
        ("Layer", "LayerNorm", "LayerNormLayer"),
        ("GPTBlock", "GPT", "GPTBlock"),
        ("block", "mlp", "mlpblock"),
    ],
)
def test_what_the_users_both_begin_with_is_said_once(class_name: str, held: str, name: str) -> None:
    assert kind_name(class_name, held) == name
