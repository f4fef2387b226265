"""Units of small models: they compute what eager does, under the original's keys, and refuse what does not fit."""

from __future__ import annotations

import copy
import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

from longhand.emit.unit.loading import load_unit
from longhand.errors import UnitError


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(48)
        self.wide = nn.Linear(48, 96)
        self.scale = nn.Parameter(torch.rand(96))
        self.register_buffer("shift", torch.rand(96))
        self.register_buffer("positions", torch.arange(10.0), persistent=False)
        self.register_buffer("noise", torch.randn(96), persistent=False)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        h = self.ln_1(x + residual)
        h = F.gelu(self.wide(h)) * self.scale + self.shift
        return torch.softmax(h + self.noise, dim=-1) * self.positions[:, None]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 32)
        self.layers = nn.ModuleList([nn.Linear(32, 32), nn.Linear(32, 32)])
        self.gaps = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
        self.head = nn.Linear(32, 64, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> dict[str, Any]:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        x = self.gaps(x)
        return {"logits": self.head(x), "pooled": (x.mean(1), x)}


class Listed(nn.Module):
    """Its parameters are in a list and a dict, one of them twice."""

    def __init__(self) -> None:
        super().__init__()
        self.scales = nn.ParameterList([torch.rand(48), torch.rand(48), torch.rand(48)])
        self.shifts = nn.ParameterDict({"first": torch.rand(48)})
        self.scales[2] = self.scales[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for scale in self.scales:
            x = torch.tanh(x * scale + self.shifts["first"])
        return x


class Cache(nn.Module):
    """Writes into an argument and returns a view of another."""

    def forward(
        self, cache: torch.Tensor, x: torch.Tensor, *, gain: float = 2.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        cache.add_(x * gain)
        return x.view(-1), torch.exp(x).sum(-1)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.up = nn.Linear(32, 64)
        self.down = nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.silu(self.up(self.norm(x))))


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(5))
        self.last = nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.last(x)


@dataclasses.dataclass(frozen=True)
class Case:
    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)


def _cases() -> dict[str, Case]:
    torch.manual_seed(0)
    return {
        "norms": Case(Norms(), (torch.randn(3, 10, 48), torch.randn(3, 10, 48))),
        "tied": Case(Tied(), (torch.randint(0, 64, (2, 7)),)),
        "listed": Case(Listed(), (torch.randn(5, 48),)),
        "cache": Case(Cache(), (torch.randn(6, 20), torch.randn(6, 20)), {"gain": 3.0}),
        "deep": Case(Deep(), (torch.randn(4, 9, 32),)),
        "half": Case(
            Norms().bfloat16(), (torch.randn(3, 10, 48).bfloat16(), torch.randn(3, 10, 48).bfloat16())
        ),
    }


_CHECK = """
import sys; sys.modules['longhand'] = None
sys.path.insert(0, {parent!r})
import runpy; runpy.run_module('{name}.check', run_name='__main__')
"""
CASES = ("norms", "tied", "listed", "cache", "deep", "half")


def _leaves(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value
    return [leaf for item in items for leaf in _leaves(item)]


@pytest.mark.parametrize("name", CASES)
def test_unit_computes_what_eager_does(name: str, unit_folder: Any) -> None:
    case = _cases()[name]
    folder = unit_folder(case.model.eval(), case.args, case.kwargs)
    ours = load_unit(folder)()
    ours.load_state_dict(case.model.state_dict())
    assert list(ours.state_dict()) == list(case.model.state_dict())
    for one in (ours, copy.deepcopy(ours)):
        given, eager_given = copy.deepcopy(case.args), copy.deepcopy(case.args)
        exact_given = [t.double() if t.is_floating_point() else t for t in copy.deepcopy(case.args)]
        with torch.no_grad():
            found = one(*given, **case.kwargs)
            eager = case.model(*eager_given, **case.kwargs)
            exact = copy.deepcopy(case.model).double()(*exact_given, **case.kwargs)
        assert type(found) is type(eager)
        pairs = zip(
            _leaves((found, given)), _leaves((eager, eager_given)), _leaves((exact, exact_given)), strict=True
        )
        for our, their, right in pairs:
            assert our.dtype == their.dtype and our.shape == their.shape
            scale = right.double().abs().max().item()
            eps = torch.finfo(our.dtype).eps if our.is_floating_point() else 0.0
            error, allowed = (
                (our.double() - right.double()).abs().max(),
                (their.double() - right.double()).abs().max(),
            )
            assert error <= 2 * allowed + 2 * eps * scale


@pytest.mark.parametrize("name", CASES)
def test_own_check_passes_where_longhand_cannot_be_imported(
    name: str, unit_folder: Any, tmp_path: Path
) -> None:
    case = _cases()[name]
    folder = unit_folder(case.model.eval(), case.args, case.kwargs)
    done = subprocess.run(
        [sys.executable, "-c", _CHECK.format(parent=str(folder.parent), name=folder.name)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok") == len(done.stdout.strip().splitlines()) > 1


def test_check_finds_a_wrong_kernel(unit_folder: Any) -> None:
    case = _cases()["norms"]
    folder = unit_folder(case.model.eval(), case.args)
    kernel = next(path for path in sorted((folder / "kernels").glob("*.cpp")) if "softmax" in path.name)
    text = kernel.read_text()
    assert " / denominator" in text
    kernel.write_text(text.replace(" / denominator", " * 1.001f / denominator"))
    done = subprocess.run(
        [sys.executable, "-c", _CHECK.format(parent=str(folder.parent), name=folder.name)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "WRONG" in done.stdout, done.stdout + done.stderr


def test_result_that_is_a_view_of_an_argument_stays_one(unit_folder: Any) -> None:
    case = _cases()["cache"]
    cache, x = (tensor.clone() for tensor in case.args)
    flat, _ = load_unit(unit_folder(case.model, case.args, case.kwargs))()(cache, x, gain=3.0)
    assert flat.data_ptr() == x.data_ptr()


def test_tied_weights_are_one_tensor(unit_folder: Any) -> None:
    case = _cases()["tied"]
    ours = load_unit(unit_folder(case.model.eval(), case.args))()
    assert ours.head.weight is ours.embedding.weight
    ours.load_state_dict(case.model.state_dict(), assign=True)
    assert ours.embedding.weight.data_ptr() == case.model.embedding.weight.data_ptr()
    with torch.no_grad():
        torch.testing.assert_close(ours(*case.args)["logits"], case.model(*case.args)["logits"])


def test_layers_become_one_class_in_a_loop(emit: Any) -> None:
    case = _cases()["deep"]
    text = emit(case.model.eval(), case.args)["model.py"]
    assert "class Block(" in text and "nn.ModuleList(Block() for _ in range(5))" in text
    assert "for block, next_norm in zip(self.blocks, norms[1:], strict=True):" in text


class _Named(torch.Tensor):
    """A subclass whose functions are torch's own."""


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda x: x[:, :5], ValueError, r"x: expected shape \(3, 10, 48\), got \(3, 5, 48\)"),
        (lambda x: x.double(), TypeError, "x: expected torch.float32, got torch.float64"),
        (
            lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
            ValueError,
            "x: expected a contiguous tensor",
        ),
        (lambda x: x.to("meta"), ValueError, "x: expected device cpu, got meta"),
        (lambda x: x.clone().requires_grad_(), RuntimeError, "x requires grad"),
        (lambda x: "text", TypeError, "x: expected a tensor, got str"),
        (torch._neg_view, ValueError, r"x: its memory holds .* opposite sign: pass x.resolve_neg\(\)"),
        (
            lambda x: x.to_sparse(),
            ValueError,
            r"x: expected a dense tensor, got torch.sparse_coo: pass x.to_dense",
        ),
        (lambda x: x.flatten(0, 1).to_sparse_csr(), ValueError, "x: expected a dense tensor"),
        (lambda x: TwoTensor(x, x), TypeError, "x: expected a torch.Tensor, got TwoTensor"),
        (lambda x: x.as_subclass(_Named), TypeError, r"got _Named, .* such as x.as_subclass\(torch.Tensor\)"),
        (
            lambda x: torch._efficientzerotensor(x.shape),
            TypeError,
            "x: expected a plain tensor, got one that holds no memory",
        ),
    ],
)
def test_wrong_arguments_are_refused(
    change: Any, error: type[Exception], words: str, unit_folder: Any
) -> None:
    case = _cases()["norms"]
    ours = load_unit(unit_folder(case.model.eval(), case.args))()
    ours.load_state_dict(case.model.state_dict())
    x, residual = case.args
    with pytest.raises(error, match=words):
        ours(change(x), residual)


def test_wrong_weights_and_values_are_refused(unit_folder: Any) -> None:
    case = _cases()["norms"]
    unit = load_unit(unit_folder(case.model.eval(), case.args))
    ours = unit()
    ours.load_state_dict(case.model.state_dict())
    ours(*case.args)
    with pytest.raises(TypeError, match=r"scale: expected torch.float32"):
        copy.deepcopy(ours).double()(*case.args)
    negated = unit()
    negated.scale = nn.Parameter(torch._neg_view(torch.randn(negated.scale.shape)), requires_grad=False)
    with pytest.raises(ValueError, match=r"scale: its memory holds"):
        negated(*case.args)
    trained = unit()
    trained.requires_grad_(True)
    with pytest.raises(RuntimeError, match=r"a weight requires grad"):
        trained(*case.args)
    cache = _cases()["cache"]
    with pytest.raises(ValueError, match=r"gain: expected 3.0"):
        load_unit(unit_folder(cache.model, cache.args, cache.kwargs, name="cache"))()(*cache.args, gain=4.0)
    same = torch.randn(6, 20)
    with pytest.raises(ValueError, match=r"cache and x overlap in memory"):
        load_unit(unit_folder(cache.model, cache.args, cache.kwargs, name="cache"))()(same, same, gain=3.0)


def test_a_layer_in_anothers_place(unit_folder: Any) -> None:
    """However a layer is replaced after the first call, the new one's tensors are used; another kind is refused."""
    case = _cases()["norms"]
    ours = load_unit(unit_folder(case.model.eval(), case.args))()
    ours.load_state_dict(case.model.state_dict())
    ours(*case.args)
    replaced = copy.deepcopy(case.model)
    for value, put in enumerate([ours._modules.__setitem__, ours.register_module, ours.__setattr__], start=2):
        other = copy.deepcopy(ours.ln_1)
        for layer in (other, replaced.ln_1):
            layer.bias.data.fill_(value)
        put("ln_1", other)
        with torch.no_grad():
            torch.testing.assert_close(ours(*case.args), replaced(*case.args))
    ours._modules["ln_1"] = copy.deepcopy(case.model.ln_1)
    with pytest.raises(TypeError, match=r"ln_1: not the layer that the kernels were written for"):
        ours(*case.args)


def test_a_weight_in_anothers_place(unit_folder: Any) -> None:
    """However a weight or a buffer is replaced after the first call, the new one is what is computed with."""
    case = _cases()["norms"]
    ours = load_unit(unit_folder(case.model.eval(), case.args))()
    ours.load_state_dict(case.model.state_dict())
    ours(*case.args)
    replaced = copy.deepcopy(case.model)

    def assigned(name: str, tensor: torch.Tensor) -> nn.Module:
        ours.load_state_dict({**ours.state_dict(), name: tensor}, assign=True)
        return ours

    def put(name: str, tensor: torch.Tensor) -> nn.Module:
        setattr(ours, name, tensor if name == "shift" else nn.Parameter(tensor, requires_grad=False))
        return ours

    def in_a_copy(name: str, tensor: torch.Tensor) -> nn.Module:
        other = copy.deepcopy(ours)
        dict(other.named_parameters() if name == "scale" else other.named_buffers())[name].data.copy_(tensor)
        return other

    for change in (assigned, put, in_a_copy):
        for name in ("scale", "shift"):
            tensor = torch.rand(96)
            getattr(replaced, name).data.copy_(tensor)
            with torch.no_grad():
                torch.testing.assert_close(change(name, tensor)(*case.args), replaced(*case.args))
                kept = torch.func.functional_call(ours, {name: tensor + 1}, case.args)
            getattr(replaced, name).data.add_(1)
            with torch.no_grad():
                torch.testing.assert_close(kept, replaced(*case.args))
            getattr(replaced, name).data.copy_(tensor)
            put(name, tensor)
    assert set(ours.state_dict()) == set(case.model.state_dict())


def test_broken_units_are_refused(tmp_path: Path, unit_folder: Any) -> None:
    with pytest.raises(UnitError, match=r"no generated unit"):
        load_unit(tmp_path / "nowhere")
    case = _cases()["deep"]
    folder = unit_folder(case.model.eval(), case.args)
    (folder / "model.py").write_text("def broken(:\n")
    with pytest.raises(UnitError, match=r"cannot be imported: SyntaxError"):
        load_unit(folder)
