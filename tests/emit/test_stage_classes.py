"""Stages whose layers do the same in other widths: one class, which is given its width."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from tests.same_gradients import assert_same_gradients, unit_of


class Block(nn.Module):
    def __init__(self, width: int, activation: nn.Module) -> None:
        super().__init__()
        self.mix = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.GroupNorm(1, width)
        self.up = nn.Conv2d(width, 2 * width, 1)
        self.activation = activation
        self.down = nn.Conv2d(2 * width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.activation(self.up(self.norm(self.mix(x)))))


class Stage(nn.Module):
    def __init__(self, n_in: int, width: int, activation: nn.Module) -> None:
        super().__init__()
        self.shrink = nn.Conv2d(n_in, width, 2, stride=2)
        self.blocks = nn.ModuleList(Block(width, activation) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.shrink(x)
        for block in self.blocks:
            x = block(x)
        return x


class Net(nn.Module):
    def __init__(self, activations: tuple[nn.Module, nn.Module]) -> None:
        super().__init__()
        self.stages = nn.ModuleList([Stage(3, 12, activations[0]), Stage(12, 20, activations[1])])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage in self.stages:
            x = stage(x)
        return x


def _unit(
    out: Path, device: str, train: bool = False, second: type[nn.Module] = nn.GELU
) -> tuple[Net, torch.Tensor]:
    torch.manual_seed(0)
    model, x = Net((nn.GELU(), second())).train(train), torch.randn(2, 3, 32, 32)
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(model, (x,), out=out, device=device, arch=arch, train=train)
    return model, x


def _classes(unit: Path) -> list[str]:
    tree = ast.parse((unit / "model.py").read_text())
    return [one.name for one in tree.body if isinstance(one, ast.ClassDef)]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_stages_of_other_widths_share_a_class(device: str, tmp_path: Path) -> None:
    _unit(tmp_path / "unit", device)
    text = (tmp_path / "unit" / "model.py").read_text()
    assert _classes(tmp_path / "unit") == ["Block", "Net"]
    assert "def __init__(self, channels):" in text
    assert "Block(12) for _ in" in text and "Block(20) for _ in" in text


def test_both_compute_what_the_model_does(tmp_path: Path) -> None:
    model, x = _unit(tmp_path / "unit", "cpu")
    torch.testing.assert_close(unit_of(model, tmp_path / "unit")(x), model(x))


def test_what_computes_something_else_has_a_class_of_its_own(tmp_path: Path) -> None:
    model, x = _unit(tmp_path / "unit", "cpu", second=nn.Tanh)
    assert (
        _classes(tmp_path / "unit") == ["Block", "StageBlock", "Net"] or len(_classes(tmp_path / "unit")) == 3
    )
    torch.testing.assert_close(unit_of(model, tmp_path / "unit")(x), model(x))


class Tokens(nn.Module):
    """An image as tokens, as Ding et al. (2022) have it: no shape of a layer's argument tells its height."""

    def __init__(self, dim: int, side: int) -> None:
        super().__init__()
        self.side = side
        self.mix = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, _, dim = x.shape
        height = width = self.side
        image = self.mix(x.transpose(1, 2).reshape(batch, dim, height, width))
        x = x + image.flatten(2).transpose(1, 2)
        return x + self.down(torch.tanh(self.up(x)))


class TokenNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 20)
        self.one = nn.ModuleList(Tokens(20, 6) for _ in range(3))
        self.wider = nn.Linear(20, 24)
        self.two = nn.ModuleList(Tokens(24, 4) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for layer in self.one:
            x = layer(x)
        x = self.wider(x[:, :16])
        for layer in self.two:
            x = layer(x)
        return x


def test_a_size_that_no_argument_tells_is_given_to_the_constructor(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = TokenNet().eval(), torch.randn(2, 36, 16)
    longhand.generate(model, (x,), out=tmp_path / "unit")
    assert _classes(tmp_path / "unit") == ["Tokens", "TokenNet"]
    text = (tmp_path / "unit" / "model.py").read_text()
    assert "def __init__(self, channels, height):" in text and "Tokens(24, 4) for _ in" in text
    assert "height, width = self.height, self.width" in text
    torch.testing.assert_close(unit_of(model, tmp_path / "unit")(x), model(x))


class Gated(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.up = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.gate(x)) * self.up(x)


class GatedNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 12)
        self.one = nn.ModuleList(Gated(12) for _ in range(3))
        self.wider = nn.Linear(12, 20)
        self.two = nn.ModuleList(Gated(20) for _ in range(3))
        self.last = nn.Linear(20, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for layer in self.one:
            x = layer(x)
        x = self.wider(x)
        for layer in self.two:
            x = layer(x)
        return self.last(x)


def test_their_backward_passes_share_a_function(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = GatedNet().train(), torch.randn(7, 5)
    longhand.generate(model, (x,), out=tmp_path / "unit", train=True)
    tree = ast.parse((tmp_path / "unit" / "backward.py").read_text())
    functions = [one.name for one in tree.body if isinstance(one, ast.FunctionDef)]
    assert functions == ["one_0_and_two_0_backward", "gated_backward", "gatednet_backward"]
    calls = [
        one.func.id for one in ast.walk(tree) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)
    ]
    assert (
        calls.count("one_0_and_two_0_backward") == 2
    )  # the first layers', which nothing follows in the backward pass
    assert_same_gradients(model, tmp_path / "unit", x, rtol=1e-4, atol=1e-5)


class Hourglass(nn.Module):
    """Down and up again: what the layers of a stage are given is called otherwise in each."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.shrink = nn.Conv2d(3, 12, 1), nn.Conv2d(12, 20, 2, stride=2)
        self.grow = nn.ConvTranspose2d(20, 12, 2, stride=2)
        self.first = nn.ModuleList(Block(12, nn.GELU()) for _ in range(2))
        self.middle = nn.ModuleList(Block(20, nn.GELU()) for _ in range(2))
        self.last = nn.ModuleList(Block(12, nn.GELU()) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = torch.tanh(self.stem(x))
        for block in self.first:
            fine = block(fine)
        coarse = self.shrink(fine)
        for block in self.middle:
            coarse = block(coarse)
        both = self.grow(coarse) + fine
        for block in self.last:
            both = block(both)
        return both


def test_layers_that_are_given_what_is_called_otherwise_are_one_class(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Hourglass().eval(), torch.randn(2, 3, 16, 12)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu")
    tree = ast.parse((tmp_path / "unit" / "model.py").read_text())
    assert [node.name for node in tree.body if isinstance(node, ast.ClassDef)] == ["Block", "Hourglass"]
    unit = unit_of(model, tmp_path / "unit")
    torch.testing.assert_close(unit(x), model(x))
