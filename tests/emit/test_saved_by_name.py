"""What a forward pass keeps is handed over and read by name, where it is more than a person takes apart by places."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from benchmarks.readability.units import text_of
from longhand.schedule.layers.read_weights import unread_endings
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


def texts_of(module: nn.Module, device: str = "cuda") -> dict[str, ast.Module]:
    texts = text_of((module, (torch.randn(4, 8),), {}), device, train=True)
    return {name: ast.parse(texts[name]) for name in ("model.py", "backward.py")}


def backward_of(module: nn.Module, device: str = "cuda") -> ast.Module:
    return texts_of(module, device)["backward.py"]


def functions_of(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_call_saves_a_record_and_reads_its_fields(device: str) -> None:
    """It was a list of ten names on each end, in an order that had to be the same."""
    texts = texts_of(Gates(), device)
    tree = texts["backward.py"]
    record = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "GatesSaved")
    fields = [node.target.id for node in record.body if isinstance(node, ast.AnnAssign)]
    assert "gate" in fields and not any(field.endswith("_weight") for field in fields)
    made = [
        node
        for node in ast.walk(functions_of(texts["model.py"])["launch"])
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "GatesSaved"
    ]
    assert [keyword.arg for keyword in made[0].keywords] == fields and not made[0].args
    differentiated = functions_of(tree)["gates_backward"]
    read = {
        node.attr
        for node in ast.walk(differentiated)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "saved"
    }
    assert read == {*fields}
    assert "model.third.weight" in ast.unparse(differentiated)
    assert len(ast.unparse(functions_of(tree)["forward"]).splitlines()) == 5, "a line of each"


def test_weights_that_nothing_is_computed_from_are_not_kept() -> None:
    """In eager, too, a bias may be written between the passes, and no hook sees it."""
    assert "UNREAD = ('.weight', '.bias')" in ast.unparse(backward_of(Few()))
    assert "UNREAD = ('.first.weight', '.first.bias', '.second.bias', '.third.bias')" in ast.unparse(
        backward_of(Gates())
    )


def test_endings_tell_what_is_not_read_from_what_is() -> None:
    paths = ["weight", "a.weight", "a.bias", "b.weight", "b.bias", "layers.0.norm.bias"]
    assert unread_endings(paths, {"a.weight", "b.weight"}) == ("model.weight", ".bias")
    assert unread_endings(paths, {"weight", "a.bias"}) == (".a.weight", ".b.weight", ".b.bias", ".norm.bias")
    assert unread_endings(paths, {*paths}) == ()


def test_of_a_module_that_is_not_read_at_all_the_beginning_tells() -> None:
    vision = [f"vision.{part}.weight" for part in ("patch", "fc", "norm")]
    paths = ["text.fc.weight", "text.fc.bias", *vision]
    assert unread_endings(paths, {"text.fc.weight"}) == (".bias", "vision.")[::-1]
    assert unread_endings(paths, {"text.fc.weight", "vision.fc.weight"}) == (
        ".bias",
        ".patch.weight",
        ".norm.weight",
    )


def test_a_few_tensors_are_a_record_too() -> None:
    """There is one way in which a call hands over what it keeps."""
    text = ast.unparse(backward_of(Few()))
    assert "class FewSaved" in text and "saved.tanh" in text and "saved.x" in text


def test_a_call_of_a_shared_function_is_given_what_it_reads_from_where_that_is() -> None:
    text = ast.unparse(functions_of(backward_of(Branches()))["branches_backward"])
    given = "model.third.narrow.weight, model.third.widen.weight, saved.third_widen_out"
    assert f"branch_backward(d_third_out, {given})" in text


@pytest.mark.parametrize("module", [Gates, Branches])
def test_gradients_are_eagers(module: type[nn.Module], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = module()
    longhand.generate(model, (torch.randn(4, 8),), out=tmp_path / "unit", device="cpu", train=True, run=False)
    assert_same_gradients(model, tmp_path / "unit", torch.randn(4, 8))


def unit_of(model: nn.Module, folder: Path) -> nn.Module:
    longhand.generate(model, (torch.randn(4, 8),), out=folder, device="cpu", train=True, run=False)
    unit = longhand.load(folder)()
    unit.load_state_dict(model.state_dict())
    return unit


def test_a_weight_that_takes_anothers_place_is_not_the_one_that_was_read(tmp_path: Path) -> None:
    """Eager differentiates what the forward pass saw; the unit's backward pass looks at the module."""
    torch.manual_seed(0)
    model, x = Gates(), torch.randn(4, 8)
    unit = unit_of(model, tmp_path / "unit")
    gradients = []
    for one in (model, unit):
        loss = one(x).square().sum()
        old = one.third.weight
        one.third.weight = nn.Parameter(torch.zeros_like(old))
        loss.backward()
        gradients.append([old.grad, one.second.weight.grad, one.first.weight.grad])
        assert one.third.weight.grad is None
    for own, eagers in zip(*gradients, strict=True):
        torch.testing.assert_close(own, eagers)


def test_what_hooks_unpack_is_what_is_read(tmp_path: Path) -> None:
    """A weight that a hook keeps apart may be written: the copy is read, as in eager."""
    torch.manual_seed(0)
    model, x = Gates(), torch.randn(4, 8)
    unit = unit_of(model, tmp_path / "unit")
    gradients = []
    for one in (model, unit):
        with torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda kept: kept):
            loss = one(x).square().sum()
        with torch.no_grad():
            one.third.weight.zero_()
        loss.backward()
        gradients.append([weight.grad for weight in one.parameters()])
    for own, eagers in zip(*gradients, strict=True):
        torch.testing.assert_close(own, eagers)


def test_only_what_is_read_may_not_be_written(tmp_path: Path) -> None:
    unit = unit_of(Gates(), tmp_path / "unit")
    loss = unit(torch.randn(4, 8)).sum()
    with torch.no_grad():
        unit.third.bias.zero_()
        unit.first.weight.zero_()
    loss.backward()
    loss = unit(torch.randn(4, 8)).sum()
    with torch.no_grad():
        unit.third.weight.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_gradient_by_another_name_is_refused(tmp_path: Path) -> None:
    """Who edits backward.py learns of a name that no parameter has."""
    unit = unit_of(Few(), tmp_path / "unit")
    path = tmp_path / "unit" / "backward.py"
    path.write_text(path.read_text().replace('"linear.bias"', '"linear.bais"'))
    edited = longhand.load(tmp_path / "unit")()
    edited.load_state_dict(unit.state_dict())
    with pytest.raises(KeyError, match="bais"):
        edited(torch.randn(4, 8)).sum().backward()
