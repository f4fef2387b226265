"""Lists of layers that are not all alike: each block is made by the class whose methods are called for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from longhand.emit.unit.loading import load_unit


class Layer(nn.Module):
    def __init__(self, hidden: int, act: nn.Module) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, hidden)
        self.down = nn.Linear(hidden, 16)
        self.act = act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.act(self.up(self.norm(x))))


class Stack(nn.Module):
    def __init__(self, layers: list[Layer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def acts(*odd: int, act: type[nn.Module] = nn.SiLU) -> list[Layer]:
    """Ten layers, some of them with another activation."""
    return [Layer(32, act() if number in odd else nn.GELU()) for number in range(10)]


def halves() -> list[Layer]:
    return acts(5, 6, 7, 8, 9)


def one() -> list[Layer]:
    return acts(5)


def first_of_the_loop() -> list[Layer]:
    return acts(1)


def two() -> list[Layer]:
    return acts(4, 7)


def library_call() -> list[Layer]:
    return acts(5, act=nn.ReLU)


def two_kinds() -> list[Layer]:
    layers = acts(3, 8)
    layers[5].act = nn.ReLU()
    return layers


def unit_of(layers: list[Layer], unit_folder: Any) -> str:
    """model.py, which computes what the model does."""
    torch.manual_seed(0)
    model, x = Stack(layers).eval(), torch.randn(4, 16)
    folder = unit_folder(model, (x,))
    ours = load_unit(folder)()
    ours.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(ours(x), model(x))
    return str((folder / "model.py").read_text())


@pytest.mark.parametrize(
    ("layers", "tests"),
    [
        (halves, ["if self.layer in range(1, 5):"]),
        (one, ["if self.layer == 5:"]),
        (first_of_the_loop, ["if self.layer == 1:"]),
        (two, ["if self.layer in (4, 7):"]),
        (library_call, ["if self.layer == 5:"]),
        (two_kinds, ["if self.layer in (3, 8):", "elif self.layer == 5:"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_few_calls_that_differ_stay_in_the_loop(
    layers: Callable[[], list[Layer]], tests: list[str], unit_folder: Any
) -> None:
    text = unit_of(layers(), unit_folder)
    assert text.count("for layer in range") == 2, "the loop, and the list of layers"
    assert text.count("class Layer") == 1
    assert [line.strip() for line in text.splitlines() if "if self.layer" in line] == tests


def wider() -> list[Layer]:
    return [Layer(48 if number == 5 else 32, nn.GELU()) for number in range(10)]


def other_weights() -> list[Layer]:
    return acts(5, act=nn.PReLU)


def no_norm() -> list[Layer]:
    layers = acts()
    layers[5].norm = nn.Identity()  # type: ignore[assignment]
    return layers


@pytest.mark.parametrize("layers", [wider, other_weights, no_norm], ids=lambda value: value.__name__)
def test_a_layer_with_other_weights_is_none_of_the_loop(
    layers: Callable[[], list[Layer]], unit_folder: Any
) -> None:
    text = unit_of(layers(), unit_folder)
    assert text.count("for layer in range") == 2
    assert "self.layer ==" not in text


def test_a_layer_that_holds_a_part_called_layer(unit_folder: Any) -> None:
    layers = acts(5)
    for block in layers:
        block.layer = block.down
        del block.down
        block.forward = lambda x, b=block: x + b.layer(b.act(b.up(b.norm(x))))  # type: ignore[method-assign]
    assert "if self.position == 5:" in unit_of(layers, unit_folder)


def test_a_large_difference_is_printed_as_layers_of_their_own(unit_folder: Any) -> None:
    class Long(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(3):
                x = torch.cumsum(x, -1).softmax(-1)
            return x

    assert "self.layer ==" not in unit_of(acts(5, act=Long), unit_folder)


class Scaled(Layer):
    """Its last value has the word of its argument, and where nothing else reads that, its memory."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        down = self.down(self.act(self.up(x)))
        x = down.mul(0.5) + x
        return x, down


class Kept(Stack):
    """What the first layer is given is a result, too."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
        first = x = torch.tanh(x) * 2
        downs = []
        for layer in self.layers:
            x, down = layer(x)
            downs.append(down)
        return x, first, *downs


def test_a_layer_that_may_not_write_over_what_it_is_given(unit_folder: Any) -> None:
    torch.manual_seed(0)
    model, x = Kept([Scaled(32, nn.GELU()) for _ in range(6)]).eval(), torch.randn(4, 16)
    folder = unit_folder(model, (x,))
    assert "if self.layer == 0:" in (folder / "model.py").read_text()
    ours = load_unit(folder)()
    ours.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(ours(x), model(x))
