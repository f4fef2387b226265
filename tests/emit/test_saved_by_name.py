"""What a forward pass keeps is handed over and read by name, where it is more than a person takes apart by places."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from benchmarks.readability.units import text_of
from tests.same_gradients import assert_same_gradients


class Gates(nn.Module):
    """Steps of which none is like another: nothing of them stands in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(8, 12), nn.Linear(12, 10), nn.Linear(10, 6)
        self.norm = nn.LayerNorm(12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(self.first(x))
        hidden = self.norm(gate * torch.tanh(gate))
        return self.third(torch.sin(self.second(hidden)))


class Few(nn.Module):
    """Two tensors and a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x))


class Branch(nn.Module):
    """Called for several widths, outside of every list."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.widen = nn.Linear(width, hidden, bias=False)
        self.narrow = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.narrow(nn.functional.silu(self.widen(x)))


class Branches(nn.Module):
    """One function, called three times."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = Branch(8, 24), Branch(8, 40), Branch(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + torch.tanh(self.first(x))
        x = x * torch.sigmoid(self.second(x))
        return torch.tanh(self.third(x))


def backward_of(module: nn.Module, device: str = "cuda") -> ast.Module:
    return ast.parse(text_of((module, (torch.randn(4, 8),), {}), device, train=True)["backward.py"])


def functions_of(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_call_saves_a_record_and_reads_its_fields(device: str) -> None:
    """It was a list of ten names on each end, in an order that had to be the same."""
    tree = backward_of(Gates(), device)
    record = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "GatesSaved")
    fields = [node.target.id for node in record.body if isinstance(node, ast.AnnAssign)]
    assert {"third_weight", "second_weight", "gate"} <= {*fields}
    functions = functions_of(tree)
    made = [
        node
        for node in ast.walk(functions["forward"])
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "GatesSaved"
    ]
    assert [keyword.arg for keyword in made[0].keywords] == fields and not made[0].args
    read = {
        node.attr
        for node in ast.walk(functions["gates_backward"])
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "saved"
    }
    assert read == {*fields}


def test_a_few_tensors_are_taken_apart_as_people_do() -> None:
    text = ast.unparse(backward_of(Few()))
    assert "FewSaved" not in text and "= saved" in text


def test_a_call_of_a_shared_function_is_given_what_it_reads_by_name() -> None:
    tree = backward_of(Branches())
    functions = functions_of(tree)
    given = {argument.arg for argument in functions["branch_backward"].args.args}
    record = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "BranchSaved")
    fields = {node.target.id for node in record.body if isinstance(node, ast.AnnAssign)}
    assert len(fields) >= 3 and fields < given
    text = ast.unparse(functions["branches_backward"])
    assert "**vars(branches.pop()))" in text and "*branches.pop())" not in text


@pytest.mark.parametrize("module", [Gates, Branches])
def test_gradients_are_eagers(module: type[nn.Module], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = module()
    longhand.generate(model, (torch.randn(4, 8),), out=tmp_path / "unit", device="cpu", train=True, run=False)
    assert_same_gradients(model, tmp_path / "unit", torch.randn(4, 8))
