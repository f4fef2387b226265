"""A gradient's word is ``d_`` and the word that the same file has for the weight, and no other weight has that word."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.emit.unit.loading import load_unit
from longhand.schedule.names.words import singular


class Attention(nn.Module):
    """Of queries and what they look at."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.q_proj, self.k_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.v_proj, self.out_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        scores = self.q_proj(x) @ self.k_proj(context).transpose(-2, -1)
        return self.out_proj(torch.softmax(scores, dim=-1) @ self.v_proj(context))


class EncoderLayer(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.self_attn, self.norm = Attention(dim), nn.LayerNorm(dim)
        self.fc1, self.fc2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(x, x)
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


class DecoderLayer(EncoderLayer):
    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.encoder_attn = Attention(dim)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(x, x)
        x = x + self.encoder_attn(x, context)
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


class Stack(nn.Module):
    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)


class Translator(nn.Module):
    """Encoder and decoder, two layers each: few enough to be written out."""

    def __init__(self, n_layers: int = 2) -> None:
        super().__init__()
        self.shared = nn.Embedding(32, 16)
        self.encoder = Stack([EncoderLayer(16) for _ in range(n_layers)])
        self.decoder = Stack([DecoderLayer(16) for _ in range(n_layers)])
        self.final_norm = nn.LayerNorm(16)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        context, x = self.shared(tokens), self.shared(targets)
        for layer in self.encoder.layers:
            context = layer(context)
        for layer in self.decoder.layers:
            x = layer(x, context)
        return F.linear(self.final_norm(x), self.shared.weight)


class Towers(nn.Module):
    """Layers in nn.Sequential, of other widths each, and a weight of the model's own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(24))
        self.towers = nn.ModuleList(
            nn.Sequential(*(self.block(i, o) for i, o in itertools.pairwise(widths)), nn.Linear(24, 24))
            for widths in ((8, 12, 24), (8, 16, 24))
        )

    @staticmethod
    def block(inner: int, outer: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(inner, outer), nn.LayerNorm(outer), nn.GELU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = (tower(x) for tower in self.towers)
        return torch.tanh(first * self.weight + second)


TOKENS = (torch.randint(0, 32, (2, 5)), torch.randint(0, 32, (2, 5)))
CASES = {
    "translator": (Translator, TOKENS),
    "towers": (Towers, (torch.randn(3, 8),)),
    "deep": (lambda: Translator(6), TOKENS),
}


def _named(function: ast.FunctionDef) -> dict[str, str]:
    """By path: the word of each gradient of a weight that a function returns; those of whole loops left out."""
    value = next(node.value for node in function.body if isinstance(node, ast.Return))
    items = value.elts if isinstance(value, ast.Tuple) else [value]
    (named,) = (item for item in items if isinstance(item, ast.Dict))
    return {
        ast.literal_eval(key): re.match(r"\w+", ast.unparse(one)).group()
        for key, one in zip(named.keys, named.values, strict=True)
        if key is not None
    }


def words_of_weights(folder: Path) -> tuple[dict[str, str], list[str]]:
    """By path: the word of each returned gradient; the paths of all weights."""
    tree = ast.parse((folder / "backward.py").read_text())
    function = next(node for node in reversed(tree.body) if isinstance(node, ast.FunctionDef))
    paths = [name for name, _ in load_unit(folder)().named_parameters()]
    return _named(function), paths


def tells(word: str, path: str) -> bool:
    """Whether a word is the end of a path, positions in lists left out or not, or a place in a list and the end."""
    parts = path.split(".")
    named = [part for part in parts if not part.isdigit()]
    ends = ["_".join(some[start:]) for some in (parts, named) for start in range(len(some))]
    placed = [
        f"{'_'.join((*parts[first : at - 1], singular(parts[at - 1]), part))}_{end}"
        for at, part in enumerate(parts)
        if part.isdigit() and at
        for first in (at - 1, max(at - 2, 0))
        for end in ends
    ]
    # Inside a layer that is an nn.Sequential there are but places.
    in_layers = [f"layer_{part}_{named[-1]}" for part in parts if part.isdigit() and len(named) == 1]
    return word in (*ends, *placed, *in_layers)


@pytest.fixture(scope="module", params=CASES)
def unit(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    make, args = CASES[request.param]
    folder = tmp_path_factory.mktemp(request.param) / "unit"
    longhand.generate(make().train(), args, out=folder, device="cuda", arch="sm_90", train=True, run=False)
    return folder


def test_a_gradient_is_labelled_with_the_weight_that_it_is_called_after(unit: Path) -> None:
    """It was one tuple of all gradients, whose order only parameters_of() knew."""
    gradients, paths = words_of_weights(unit)
    assert gradients and gradients.keys() <= {*paths}
    assert [path for path in paths if path in gradients] == [*gradients], "in the order of the parameters"
    for path, word in gradients.items():
        assert word.startswith("d_") and tells(word.removeprefix("d_"), path), (path, word)


def test_no_other_weight_has_the_word(unit: Path) -> None:
    gradients, paths = words_of_weights(unit)
    words = {path: word.removeprefix("d_") for path, word in gradients.items()}
    for path, word in words.items():
        others = [other for other in paths if other != path and tells(word, other) and "." in other]
        assert not others or "." not in path, (path, word, others)
    assert len(set(words.values())) == len(words)


def test_a_layer_names_the_gradients_of_its_weights(unit: Path) -> None:
    """Functions of loops: what they return for the layer's weights, by the paths inside it."""
    tree = ast.parse((unit / "backward.py").read_text())
    of_loops = {
        word for line in ast.unparse(tree).splitlines() for word in re.findall(r"\] = (\w+)\(model\.", line)
    }
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in of_loops]
    assert functions or "for layer in" not in ast.unparse(tree)
    for function in functions:
        named = _named(function)
        assert named and all(tells(word.removeprefix("d_"), path) for path, word in named.items())
        read = set(re.findall(r"layer\.([\w.]+)\.weight", ast.unparse(function)))
        assert {f"{path}.weight" for path in read} <= named.keys()
