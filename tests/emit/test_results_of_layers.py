"""What a layer returns is called by one word in the layer and where it is called, and so is what is saved."""

from __future__ import annotations

import ast

import pytest
import torch
from torch import nn

from benchmarks.readability.units import text_of


class Layer(nn.Module):
    """A layer that ends in the next one's norm: its sum is the next one's residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.after = nn.RMSNorm(16), nn.RMSNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        residual = hidden_states
        hidden_states = self.norm(hidden_states)
        hidden_states = self.down(torch.tanh(self.up(hidden_states)))
        hidden_states = self.after(hidden_states)
        return residual + hidden_states


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.norm = nn.RMSNorm(16)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        embeddings = self.embed(ids)
        for layer in self.layers:
            embeddings = layer(embeddings)
        return self.norm(embeddings)


def bound_and_returned(text: str) -> tuple[list[str], list[str]]:
    """What the loop binds of a layer's results, and what the layer returns."""
    tree = ast.parse(text)
    layer = next(one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == "Layer")
    returned = [one for one in ast.walk(layer) if isinstance(one, ast.Return)][-1].value
    call = next(
        one
        for one in ast.walk(tree)
        if isinstance(one, ast.Assign)
        and isinstance(one.value, ast.Call)
        and ast.unparse(one.value.func) in ("block", "self.layers[layer]")
    )
    return words_of(call.targets[0]), words_of(returned)


def words_of(node: ast.expr | None) -> list[str]:
    assert node is not None
    return [ast.unparse(one) for one in node.elts] if isinstance(node, ast.Tuple) else [ast.unparse(node)]


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_results_have_the_words_of_the_layer(device: str, train: bool) -> None:
    texts = text_of((Model().train(train), (torch.randint(0, 11, (2, 5)),), {}), device, train=train)
    bound, returned = bound_and_returned(texts["model.py"])
    assert len(bound) == len(returned) > 1
    # What is handed on to the next layer may be called the next one's there.
    assert [word.removeprefix("next_") for word in returned] == bound


def test_fields_have_the_words_of_the_variables() -> None:
    texts = text_of((Model().train(), (torch.randint(0, 11, (2, 5)),), {}), "cuda", train=True)
    tree = ast.parse(texts["model.py"])
    saved = next(
        one for one in ast.walk(tree) if isinstance(one, ast.Call) and ast.unparse(one.func) == "ModelSaved"
    )
    pairs = [(one.arg, one.value.id) for one in saved.keywords if isinstance(one.value, ast.Name)]
    assert pairs and all(field == variable for field, variable in pairs if variable != f"saved_{field}")
