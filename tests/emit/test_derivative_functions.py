"""A long backward pass is told by functions: one for each part of the forward pass's module."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import torch
from torch import nn

import longhand
from longhand.emit.layers.derivative_words import what_passes
from tests.same_gradients import assert_gradients_as_exact

_DIM = 16


class Mixing(nn.Module):
    """An attention without softmax, as long as one."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(_DIM)
        self.q, self.k, self.v = (nn.Linear(_DIM, _DIM) for _ in range(3))
        self.proj = nn.Linear(_DIM, _DIM)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x)
        q, k, v = self.q(normed), self.k(normed), self.v(normed)
        scores = torch.sigmoid(q @ k.transpose(-2, -1))
        return self.proj(torch.tanh(scores @ v))


class Widening(nn.Module):
    """A feed-forward part."""

    def __init__(self) -> None:
        super().__init__()
        self.widen, self.gate, self.narrow = (nn.Linear(_DIM, _DIM) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.narrow(torch.nn.functional.silu(self.gate(x)) * self.widen(x))


class Layer(nn.Module):
    """Two parts, each around a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.attn, self.mlp = Mixing(), Widening()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(x)
        return x + self.mlp(x)


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


class Alone(nn.Module):
    """One layer, which no loop is over."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layer, self.head = nn.Linear(_DIM, _DIM), Layer(), nn.Linear(_DIM, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(torch.tanh(self.first(x))))


def _written(model: nn.Module, folder: Path, *args: torch.Tensor) -> str:
    longhand.generate(model, args, out=folder, train=True)
    assert_gradients_as_exact(model, folder, *args)
    return (folder / "backward.py").read_text()


def _functions(text: str) -> dict[str, ast.FunctionDef]:
    return {one.name: one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)}


def test_a_layers_parts_are_functions_in_the_order_of_the_backward_pass(tmp_path: Path) -> None:
    torch.manual_seed(0)
    text = _written(Layers().train(), tmp_path / "unit", torch.randn(2, 5, _DIM))
    functions = _functions(text)
    one_layer, outermost = (ast.unparse(functions[name]) for name in ("layer_backward", "layers_backward"))
    assert "attn_gradients = mixing_backward(layer.attn, saved, " in one_layer
    assert "**of_module('attn', attn_gradients)" in one_layer
    places = [
        outermost.index(f"{name}(") for name in ("layer_2_backward", "layer_backward", "layer_0_backward")
    ]
    assert places == sorted(places)
    assert "**of_module('layers.2', layer_2_gradients)" in outermost
    assert "kernels.gelu" not in outermost and outermost.count("torch.mm") == 2  # the head's


def test_each_says_whose_derivative_it_is_and_what_goes_in_and_out(tmp_path: Path) -> None:
    torch.manual_seed(0)
    text = _written(Layers().train(), tmp_path / "unit", torch.randn(2, 5, _DIM))
    whose = {
        "layer_2_backward": (
            "Part of the derivative of Layer, layers[2]",  # the rest of it ends in layer_backward
            "the gradients of mlp.narrow.weight and mlp.narrow.bias",
        ),
        "mixing_backward": ("The derivative of Mixing, layers[i].attn", "gradients of its weights"),
    }
    for name, (of, weights) in whose.items():
        function = _functions(text)[name]
        said = " ".join((ast.get_docstring(function) or "").split())
        assert re.fullmatch(
            rf"{re.escape(of)}[:.] [Ff]rom d_\w+ to .* and {weights}\.( Overwrites d_\w+\.)?", said
        )
        returned = function.body[-1]
        assert isinstance(returned, ast.Return) and isinstance(returned.value, ast.Tuple)
        words = [one.id for one in returned.value.elts if isinstance(one, ast.Name)]
        assert words and all(word in said for word in words)


def test_a_module_alone_is_one_too_and_drops_what_was_saved_inside(tmp_path: Path) -> None:
    torch.manual_seed(0)
    text = _written(Alone().train(), tmp_path / "unit", torch.randn(64, 50, _DIM))
    functions = _functions(text)
    assert {"widening_backward", "mixing_backward"} < functions.keys()
    outermost = ast.unparse(functions["alone_backward"])
    assert (
        "**of_module('layer.attn', layer_attn_gradients)" in outermost or "**of_module('layer', " in outermost
    )
    fields = [
        set(re.findall(r"saved\.(\w+)", ast.unparse(one)))
        for name, one in functions.items()
        if name in ("widening_backward", "mixing_backward")
    ]
    dropped = {
        name for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Delete) for name in _fields_in(one)
    }
    inside = {
        name
        for function in ("widening_backward", "mixing_backward")
        for one in ast.walk(functions[function])
        if isinstance(one, ast.Delete)
        for name in _fields_in(one)
    }
    read_inside_only = set().union(*fields) - set(re.findall(r"saved\.(\w+)", outermost))
    assert dropped & read_inside_only == inside & read_inside_only


def _fields_in(one: ast.Delete) -> list[str]:
    return [
        name.attr for target in one.targets for name in ast.walk(target) if isinstance(name, ast.Attribute)
    ]


def test_no_function_is_long_where_modules_allow(tmp_path: Path) -> None:
    torch.manual_seed(0)
    text = _written(Layers().train(), tmp_path / "unit", torch.randn(2, 5, _DIM))
    lines = text.splitlines()
    bodies = (lines[one.lineno - 1 : one.end_lineno] for one in _functions(text).values())
    assert max(sum(not line.lstrip().startswith("#") for line in body) for body in bodies) <= 73


def test_of_two_gradients_by_one_word_it_is_said_which_is_which() -> None:
    said = what_passes(["d_x"], ["d_x"], ["weight"], "its")
    assert said == "from d_x of its result to d_x of its input and the gradient of weight"
    assert what_passes(["d_out"], ["d_x"], [], "its") == "from d_out to d_x"
