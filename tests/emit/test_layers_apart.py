"""Two layers whose ends are fused with what stands around them: one function, and a call for each layer."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from tests.same_gradients import assert_same_gradients, unit_of


class Layer(nn.Module):
    """Its last sum becomes one kernel with the norm after it, the next layer's or the model's."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.gate = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)
        self.scale = nn.Parameter(torch.randn(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(x)
        gated = torch.tanh(self.up(hidden)) * self.gate(hidden)
        return x + self.scale * self.down(gated)


class Stack(nn.Module):
    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.layers = nn.ModuleList(Layer() for _ in range(n_layers))
        self.norm = nn.LayerNorm(16)
        with torch.no_grad():  # no two layers have equal weights
            for parameter in self.parameters():
                parameter.add_(0.2 * torch.randn(parameter.shape))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Pooled(Stack):
    """What comes behind the layers is no norm of all that they make: their ends differ."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x.mean(1))


class Unlike(Stack):
    """The second layer holds something else: one class cannot make both."""

    def __init__(self) -> None:
        super().__init__(2)
        self.layers[1].up = nn.Linear(16, 32, bias=False)


def stack(n_layers: int = 2) -> tuple[Stack, torch.Tensor]:
    torch.manual_seed(0)
    return Stack(n_layers), torch.randint(11, (2, 7))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_two_layers_are_one_function(device: str, tmp_path: Path) -> None:
    _, tokens = stack()
    model = Pooled(2)
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(model.eval(), (tokens,), out=tmp_path / "unit", device=device, arch=arch)
    text = (tmp_path / "unit" / "model.py").read_text()
    assert text.count(".up.weight") == 1
    assert len(re.findall(r"= self\.layers\[[01]\]\(", text)) == 2
    assert "layers_0" not in text and "layers_1" not in text


def test_both_compute_what_the_model_does(tmp_path: Path) -> None:
    _, tokens = stack()
    model = Pooled(2)
    longhand.generate(model.eval(), (tokens,), out=tmp_path / "unit")
    torch.testing.assert_close(unit_of(model, tmp_path / "unit")(tokens), model(tokens))


def test_their_backward_pass_is_one_function_whose_gradients_are_told_by_name(tmp_path: Path) -> None:
    model, tokens = stack()
    longhand.generate(model.train(), (tokens,), out=tmp_path / "unit", train=True)
    text = (tmp_path / "unit" / "backward.py").read_text()
    functions = {one.name: one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef)}
    whole = ast.unparse(functions["stack_backward"])
    assert whole.count("layer_backward(") == 2
    returned = ast.unparse(functions["layer_backward"].body[-1])
    order = [word for word in re.findall(r"d_\w+", returned) if word.endswith(("weight", "bias", "scale"))]
    held = [name.replace(".", "_") for name, _ in Layer().named_parameters()]
    assert order == [word for word in (f"d_{name}" for name in held) if word in order]
    assert whole.count("d_layers = {}") == 1 and "d_layers[0] = layer_backward(" in whole
    assert '**of_layers("layers", d_layers)' in text and "d_layer_0_down_weight" not in whole
    assert_same_gradients(model, tmp_path / "unit", tokens)


class Branched(nn.Module):
    """Of two such layers the last one's state has a head: their derivatives have little in common."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.scale = nn.LayerNorm(16), nn.Parameter(torch.randn(16))
        self.inner = nn.ModuleList(nn.Linear(16, 16) for _ in range(9))
        self.state, self.back = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.norm(x)
        for place, inner in enumerate(self.inner):
            h = inner(torch.tanh(h)) if place % 2 else inner(h) * torch.sigmoid(h)
        state = self.state(h)
        return x + self.scale * self.back(state), state


class WithHead(Stack):
    def __init__(self) -> None:
        super().__init__(0)
        self.layers = nn.ModuleList(Branched() for _ in range(2))
        self.head = nn.Linear(16, 16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x, state = layer(x)
        return self.norm(x.mean(1)) + self.head(state).mean(1)


def test_layers_that_save_much_return_a_record_of_it(tmp_path: Path) -> None:
    _, tokens = stack()
    model = WithHead()
    longhand.generate(model.train(), (tokens,), out=tmp_path / "unit", train=True)
    tree = ast.parse((tmp_path / "unit" / "model.py").read_text())
    launch = next(one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name == "launch")
    targets = [one.targets[0] for one in ast.walk(launch) if isinstance(one, ast.Assign)]
    returned = [len(target.elts) for target in targets if isinstance(target, ast.Tuple)]
    assert returned.count(3) == 2 and max(returned) == 3  # state, back_out, saved_layers_0
    assert_same_gradients(model, tmp_path / "unit", tokens)


def test_layers_that_hold_other_things_stay_written_out(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, tokens = Unlike(), torch.randint(11, (2, 7))
    longhand.generate(model.eval(), (tokens,), out=tmp_path / "unit")
    assert "self.layers[0](" not in (tmp_path / "unit" / "model.py").read_text()
    torch.testing.assert_close(unit_of(model, tmp_path / "unit")(tokens), model(tokens))
