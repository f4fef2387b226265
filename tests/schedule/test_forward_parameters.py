"""What a layer is given is called what its forward() calls it, wherever it comes from."""

from __future__ import annotations

import ast

import torch
from torch import nn

from benchmarks.readability.units import text_of


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(24, 48), nn.Linear(48, 24)
        self.LayerNorm = nn.LayerNorm(24)

    def forward(self, hidden_states: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        wide = torch.tanh(self.up(hidden_states) + memory)
        return self.LayerNorm(self.down(wide) + hidden_states)


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(24, 48), nn.Linear(48, 24)

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor + self.down(torch.tanh(self.up(tensor)))


class Outer(nn.Module):
    """None of its own statements reads what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.other = Inner(), Inner()

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return self.other(self.inner(given))


class Reassigned(Inner):
    """Its parameters have changed places by the time at which the words are read."""

    def forward(self, tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        tensor, other = other, tensor
        return torch.tanh(self.down(torch.tanh(self.up(other)))) + torch.tanh(tensor)


class Stack(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        for layer in self.layers:
            y = layer(y, *more)
        return y


def _parameters(model: nn.Module, *args: torch.Tensor) -> list[str]:
    """Of the one function of all layers, or the method of their class."""
    tree = ast.parse(text_of((model.eval(), args, {}), "cpu", train=False)["model.py"])
    bodies = [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name != "Stack")]
    functions = [one for body in bodies for one in body.body if isinstance(one, ast.FunctionDef)]
    function = functions[-1]  # the outermost: what it calls stands before it
    return [argument.arg for argument in function.args.args][1:]


def test_each_is_what_a_statement_of_the_layers_calls_it() -> None:
    model, args = Stack(Layer(), Layer()), (torch.randn(2, 5, 24), torch.randn(2, 5, 48))
    assert _parameters(model, *args) == ["hidden_states", "memory"]


def test_the_only_one_is_the_first_parameter() -> None:
    assert _parameters(Stack(Outer(), Outer()), torch.randn(2, 5, 24)) == ["given"]


def test_what_was_assigned_before_tells_nothing() -> None:
    layers = (Reassigned() for _ in range(4))
    found = _parameters(Stack(*layers), torch.randn(2, 5, 24), torch.randn(2, 5, 24))
    assert "tensor" not in found and "other" not in found
