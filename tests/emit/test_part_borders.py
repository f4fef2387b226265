"""A part of a long derivative goes on over the norm before its module, where fewer values cross its border so."""

from __future__ import annotations

import ast
import re

import pytest
import torch
from torch import nn

import longhand
from longhand.schedule.functions.part_borders import AroundPart, PartBorder, part_borders
from tests.same_gradients import assert_gradients_as_exact

_DIM = 16


class Gated(nn.Module):
    """A feed-forward part whose input two weights are multiplied with."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.widen, self.narrow = (nn.Linear(_DIM, _DIM, bias=False) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.narrow(torch.nn.functional.silu(self.gate(x)) * self.widen(x))


class Mixer(nn.Module):
    """Another, which mixes positions."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(_DIM, _DIM, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = torch.sigmoid(self.q(x) @ self.k(x).transpose(-2, -1))
        return self.out(torch.tanh(scores @ self.v(x)))


class Layer(nn.Module):
    """Each part is given what a norm makes."""

    def __init__(self) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.LayerNorm(_DIM), nn.LayerNorm(_DIM)
        self.mixer, self.gated = Mixer(), Gated()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.mixer(self.first_norm(x))
        return x + self.gated(self.second_norm(x))


class Layers(nn.Module):
    """Equal layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.head = nn.Linear(_DIM, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ast.FunctionDef]:
    torch.manual_seed(0)
    model, x = Layers().train(), torch.randn(2, 5, _DIM)
    folder = tmp_path_factory.mktemp("borders") / "unit"
    longhand.generate(model, (x,), out=folder, train=True)
    assert_gradients_as_exact(model, folder, x)
    text = (folder / "backward.py").read_text()
    return {one.name: one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)}


@pytest.mark.parametrize(("name", "norm"), [("gated", "second_norm"), ("mixer", "first_norm")])
def test_a_module_and_the_norm_before_it_hand_on_one_tensor(
    name: str, norm: str, functions: dict[str, ast.FunctionDef]
) -> None:
    function = functions[f"{name}_backward"]
    returned = function.body[-1]
    assert isinstance(returned, ast.Return) and isinstance(returned.value, ast.Tuple)
    tensor, gradients = returned.value.elts
    assert isinstance(tensor, ast.Name) and isinstance(gradients, ast.Dict)
    keys = [key.value for key in gradients.keys if isinstance(key, ast.Constant)]
    assert f"{norm}.weight" in keys and f"{norm}.bias" in keys and f"{name}." in str(keys), keys
    # One is the first layer's function, too, whose record calls the tensors otherwise: it is given them.
    layer, *given = (one.arg for one in function.args.args)
    assert layer == "layer" and ("saved" in given) == (name == "mixer"), given


@pytest.mark.parametrize(("name", "norm"), [("gated", "second_norm"), ("mixer", "first_norm")])
def test_it_says_whose_derivatives_it_is(name: str, norm: str, functions: dict[str, ast.FunctionDef]) -> None:
    said = " ".join((ast.get_docstring(functions[f"{name}_backward"]) or "").split())
    ends = re.sub(r" Overwrites d_\w+\.$", "", said)
    assert f"layers[i].{name}, and of {norm}" in said and ends.endswith("gradients of their weights."), said


_TOUCHED = [
    {"a", "a.mlp", "a.mlp.up"},
    {"a", "a.mlp", "a.norm"},
    {"a", "a.mlp"},
    {"a", "a.norm"},
    {"a", "a.attn"},
]


def _borders(touched: list[set[str]], root: str = "a") -> list[PartBorder]:
    return [*part_borders("a.mlp", 0, 0, [*range(len(touched))], touched, AroundPart(root))]


def test_a_part_takes_in_all_of_one_other_module_or_nothing() -> None:
    assert [(one.last, one.also, one.root) for one in _borders(_TOUCHED)] == [
        (0, "", "a.mlp"),
        (3, "a.norm", "a"),
    ]
    again = [*_TOUCHED, {"a", "a.norm"}]  # the norm's derivative goes on elsewhere
    assert [one.last for one in _borders(again)] == [0]


def test_a_layer_that_holds_no_other_has_its_own_borders() -> None:
    """A Linear that is called in each step of a recurrence took in a part of the step."""
    touched = [{"a", "a.mlp"}, *_TOUCHED[1:]]
    assert [one.last for one in _borders(touched)] == [0]


def test_not_one_that_the_function_around_is_not_given() -> None:
    assert [one.last for one in _borders(_TOUCHED, "a.mlp")] == [0]


def test_what_a_part_begins_with_may_be_left_out_if_it_is_all_of_a_module_inside() -> None:
    touched = [{"a.mlp", "a.mlp.norm"}, {"a.mlp", "a.mlp.up"}, {"a.mlp", "a.mlp.up"}]
    found = [*part_borders("a.mlp", 0, 2, [0, 1, 2], touched, AroundPart("a"))]
    assert [(one.first, one.without) for one in found] == [(0, ""), (1, "a.mlp.norm")]
    touched[2].add("a.mlp.norm")
    assert len([*part_borders("a.mlp", 0, 2, [0, 1, 2], touched, AroundPart("a"))]) == 1
