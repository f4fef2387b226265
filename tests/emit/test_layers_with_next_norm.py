"""Layers that end in the norm of the next one: one loop over all of them, the last is given the norm behind it."""

from __future__ import annotations

import re
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.emit.layers.carried import begin_carried
from longhand.schedule.named_plan import Reached
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


class NumberedOn(Stack):
    """Layers whose numbers go on behind those of other lists: the unit's list begins with places that hold nothing."""

    def __init__(self) -> None:
        super().__init__(0)
        self.layers = nn.Sequential(OrderedDict((str(number), Layer()) for number in range(5, 8)))


def test_places_that_hold_nothing_have_no_norm(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, tokens = NumberedOn().eval(), torch.randint(11, (2, 7))
    longhand.generate(model, (tokens,), out=tmp_path / "unit")
    torch.testing.assert_close(unit_of(model, tmp_path / "unit")(tokens), model(tokens))
    text = (tmp_path / "unit" / "model.py").read_text()
    assert "range(5, len(self.layers))" in text and "nn.Identity()" in text


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


class OneName(nn.Module):
    """A layer that calls everything hidden_states, as many models do."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        residual = hidden_states
        hidden_states = self.norm(hidden_states)
        hidden_states = self.down(torch.tanh(self.up(hidden_states)))
        return residual + hidden_states


class StackOfOneName(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(11, 16), nn.Embedding(7, 16)
        self.layers = nn.ModuleList(OneName() for _ in range(3))
        self.norm = nn.LayerNorm(16)

    def forward(self, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden_states = self.embedding(tokens) + self.positions.weight
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        hidden_states = self.norm(hidden_states)
        return {"encoder_last_hidden_state": hidden_states}


class Both(nn.Module):
    """What the encoder returns is called as its layers' results are."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = StackOfOneName(), StackOfOneName()

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.encoder(tokens)["encoder_last_hidden_state"]
        return self.decoder(tokens)["encoder_last_hidden_state"] + hidden.mean(), hidden


def test_a_name_that_a_loop_begins_with_is_read_before_it_is_taken(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, tokens = Both().eval(), torch.randint(11, (2, 7))
    longhand.generate(model, (tokens,), out=tmp_path / "unit")
    for mine, theirs in zip(unit_of(model, tmp_path / "unit")(tokens), model(tokens), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_names_are_taken_at_once_where_one_is_read_by_another() -> None:
    assert begin_carried([("x", "x"), ("y", "z")]) == ["y = z"]
    assert begin_carried([("x", "normed"), ("y", "z")]) == ["x = normed", "y = z"]
    assert begin_carried([("x", "y"), ("y", "z")]) == ["x = y", "y = z"]
    assert begin_carried([("x", "normed"), ("y", "x")]) == ["x, y = normed, x"]
    assert begin_carried([("x", "y"), ("y", "x")]) == ["x, y = y, x"]
    assert begin_carried([("saved", "y"), ("x", Reached.field_of("saved", "x"))]) == ["saved, x = y, saved.x"]


class Listed(nn.Module):
    """A list of weights, and no layers."""

    def __init__(self) -> None:
        super().__init__()
        self.scales = nn.ParameterList(torch.randn(16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for scale in self.scales:
            x = torch.softmax(x * scale, -1)
        return x


def test_a_list_of_weights_has_no_layers_to_end(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Listed(), torch.randn(4, 16)
    longhand.generate(model, (x,), out=tmp_path / "unit")
    torch.testing.assert_close(unit_of(model, tmp_path / "unit")(x), model(x))


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_no_statement_of_one_layer_stands_above_what_all_do(train: bool, tmp_path: Path) -> None:
    """The norm that the last layer ends in is the model's; the others' end in their next one's."""
    model, tokens = stack(3)
    longhand.generate(model.train(train), (tokens,), out=tmp_path / "unit", train=train)
    text = (tmp_path / "unit" / "model.py").read_text()
    layer = text.partition("def forward(self, ")[2].partition("\nclass ")[0]
    assert "next_norm_weight" in layer and "self.down" in layer, layer
    assert not re.search(r"# Stack\.forward .*self\.norm\(", layer), layer
