"""A module of the user's that is called several times: one function of model.py, called for each."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import longhand
from longhand.emit.layers import shared_functions
from longhand.emit.layers.layer_methods import Method
from longhand.emit.unit.loading import load_unit
from longhand.schedule.functions.alike_calls import ModuleCalls


class Attention(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.out = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        q, k, v = self.q(x), self.k(memory), self.v(memory)
        scores = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        return self.out(scores @ v)


class Widen(nn.Module):
    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(n_in, n_out, 3, stride=stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(self.conv(x))


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [Widen(3, 8, 1), Widen(8, 12, 2), Widen(12, 12, 1), Widen(12, 16, 2), Widen(16, 16, 1)]
        )
        self.own, self.cross = Attention(16), Attention(16)
        self.norm = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x.transpose(1, 2))
        x = self.norm(x + self.own(x, x))
        return self.norm(x + self.cross(x, memory))


def _functions(path: Path) -> dict[str, ast.FunctionDef]:
    tree = ast.parse((path / "model.py").read_text())
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _calls(path: Path, name: str) -> int:
    tree = ast.parse((path / "model.py").read_text())
    return sum(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
        for node in ast.walk(tree)
    )


@pytest.mark.parametrize(
    ("word", "function"),
    [("AttentionGlobal", "attention_global"), ("Lambda", "lambda_"), ("Sum", "sum_"), ("Torch", "torch_")],
)
def test_a_class_that_is_called_like_a_keyword(tmp_path: Path, word: str, function: str) -> None:
    model, args = Twice().eval(), (torch.randn(2, 3, 40), torch.randn(2, 5, 16))
    model.own.__class__ = model.cross.__class__ = type(word, (Attention,), {})
    longhand.generate(model, args, out=tmp_path / "unit", device="cpu", run=False)
    given = [argument.arg for argument in _functions(tmp_path / "unit")[function].args.args]
    assert given == ["module", "x", "memory"]


def test_modules_that_do_the_same_are_one_function(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x, memory = Twice().eval(), torch.randn(2, 3, 40), torch.randn(2, 5, 16)
    longhand.generate(model, (x, memory), out=tmp_path / "unit", device="cpu")
    found = _functions(tmp_path / "unit")
    attention = [argument.arg for argument in found["attention"].args.args]
    assert len(attention) == 3 and attention[1:] == ["x", "memory"]
    assert _calls(tmp_path / "unit", "attention") == 2
    # Other widths, other strides, and a loop over the list.
    assert [argument.arg for argument in found["widen"].args.args] == ["layer", "x", "stride"]
    assert _calls(tmp_path / "unit", "widen") == 1
    assert "zip(" in (tmp_path / "unit" / "model.py").read_text()
    unit = load_unit(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    torch.testing.assert_close(unit(x, memory), model(x, memory))
    torch.testing.assert_close(unit(-x, 2 * memory), model(-x, 2 * memory))


def test_modules_that_do_other_things_stay_apart(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Twice().eval()
    model.cross.out = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
    x, memory = torch.randn(2, 3, 40), torch.randn(2, 5, 16)
    longhand.generate(model, (x, memory), out=tmp_path / "unit", device="cpu")
    unit = load_unit(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    torch.testing.assert_close(unit(x, memory), model(x, memory))


class Gate(nn.Module):
    """Its own tensor and a local of its forward have one name, and so has a value around its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.se = nn.Parameter(torch.randn(16))
        self.widen, self.narrow = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        se = torch.tanh(self.widen(x.mean(1, keepdim=True)))
        narrow = self.narrow(se)
        se = torch.sigmoid(narrow)
        return x * se * self.se


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.se = Gate(), Gate(), Gate()
        self.between = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        se = self.first(x)
        gate = self.between(se)
        se = self.second(gate) + se
        return self.se(self.between(se)) + gate


def test_words_of_modules_and_of_locals_are_told_apart(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Gated().eval(), torch.randn(2, 5, 16)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu")
    unit = load_unit(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    torch.testing.assert_close(unit(x), model(x))


class Scaled(nn.Module):
    """Its number differs from module to module; around its calls a tensor is called like that number's parameter."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3, padding="same", dilation=dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.conv(x) + 1) * x


class Dilated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Scaled(dilation) for dilation in (1, 2, 1, 3))
        self.to_in = nn.Conv1d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dilation = self.to_in(x)
        x = torch.relu(x)
        for layer in self.layers:
            x = layer(x)
        return x * dilation


def test_a_loop_binds_no_number_in_place_of_a_variable(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Dilated().eval(), torch.randn(2, 4, 9)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu")
    text = (tmp_path / "unit" / "model.py").read_text()
    assert "scaled(" in text and "dilation in" not in text
    unit = load_unit(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    torch.testing.assert_close(unit(x), model(x))


class Mixed(nn.Module):
    """Its product is of the same three values, in an order of its own."""

    def __init__(self, order: tuple[int, ...]) -> None:
        super().__init__()
        self.order = order
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        first, second, third = ((q, k, v)[place] for place in self.order)
        return torch.softmax(first @ second @ third, -1)


class SixOrders(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        orders = list(itertools.permutations(range(3)))
        self.first, self.second, self.third = map(Mixed, orders[:3])
        self.fourth, self.fifth, self.sixth = map(Mixed, orders[3:])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.third(self.second(self.first(x)))
        return self.sixth(self.fifth(self.fourth(x)))


def test_a_module_is_written_once_for_all_that_it_is_compared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[object] = []
    write = shared_functions.write_method

    def watched(*args: Any, **kwargs: Any) -> Method:
        written.append(args)
        return write(*args, **kwargs)

    monkeypatch.setattr(shared_functions, "write_method", watched)
    model = SixOrders().eval()
    longhand.generate(model, (torch.randn(8, 8),), out=tmp_path / "unit", device="cpu", run=False)
    assert len(written) < 200  # 594 where each pair of the six is written anew


class Masked(nn.Module):
    """One mask is causal, the other keeps every key: longhand says so where it leaves the mask out."""

    def __init__(self, is_causal: bool) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(16, 16) for _ in range(4))
        self.is_causal = is_causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (part(x).view(2, 6, 2, 8).transpose(1, 2) for part in (self.q, self.k, self.v))
        mask = torch.ones(6, 6, dtype=torch.bool)
        mixed = nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask.tril() if self.is_causal else mask
        )
        return self.out(mixed.transpose(1, 2).reshape(2, 6, 16))


class MaskedTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.open, self.causal = Masked(False), Masked(True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.causal(self.norm(torch.tanh(self.open(self.norm(x)))))


def test_remarks_that_are_true_of_one_call_alone_are_left_out(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = MaskedTwice().eval(), torch.randn(2, 6, 16)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu")
    assert _calls(tmp_path / "unit", "masked") == 2
    parameters = [one.arg for one in _functions(tmp_path / "unit")["masked"].args.args]
    assert parameters[-1] == "is_causal" and len(parameters) == 3
    text = (tmp_path / "unit" / "model.py").read_text()
    assert "is_causal=False" in text and "is_causal=True" in text and "whatever the input" not in text
    unit = load_unit(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    torch.testing.assert_close(unit(x), model(x))


class Scale(nn.Module):
    def __init__(self, power: float) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(16, 16), nn.Linear(16, 16)
        self.power = power

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(torch.tanh(self.one(x) * self.power) + x)


class ScaledTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.first, self.second = Scale(0.5), Scale(0.25)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.norm(torch.tanh(self.first(self.norm(x)))))


def test_another_factor_of_a_kernel_is_another_function(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = ScaledTwice().eval(), torch.randn(3, 16)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu")
    unit = load_unit(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    torch.testing.assert_close(unit(x), model(x))


class OwnDilation(nn.Module):
    """A local of its forward is called like the number in which its modules differ."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.one = nn.Conv1d(4, 4, 3, padding=2 * dilation, dilation=dilation)
        self.two = nn.Conv1d(4, 4, 3, padding=dilation, dilation=dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dilation = torch.tanh(self.one(x))
        return torch.tanh(self.two(dilation)).mean(-1, keepdim=True) * x


class OwnDilations(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = OwnDilation(1), OwnDilation(2), OwnDilation(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.third(torch.relu(self.second(torch.relu(self.first(x)))))


def test_a_local_that_is_called_like_a_number_is_not_taken_for_it(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = OwnDilations().eval(), torch.randn(2, 4, 12)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu", run=False)
    unit = load_unit(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    torch.testing.assert_close(unit(x), model(x))


class SevenTimes(nn.Module):
    """Long enough that each attention is a part of it that is told by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third, self.fourth = (Attention(16) for _ in range(4))
        self.fifth, self.sixth, self.seventh = (Attention(16) for _ in range(3))

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        for attention in (
            self.first,
            self.second,
            self.third,
            self.fourth,
            self.fifth,
            self.sixth,
            self.seventh,
        ):
            x = torch.tanh(attention(x, memory))
        return x


def test_parts_with_one_text_are_one_function(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What nobody saw to be alike, because it stands in other functions, is seen when it is written."""
    monkeypatch.setattr(ModuleCalls, "candidates", lambda self, taken: [])
    torch.manual_seed(0)
    model, x, memory = SevenTimes().eval(), torch.randn(2, 3, 16), torch.randn(2, 5, 16)
    longhand.generate(model, (x, memory), out=tmp_path / "unit", device="cpu")
    assert list(_functions(tmp_path / "unit")) == ["attention_weights", "attention"]
    assert _calls(tmp_path / "unit", "attention") == 7
    assert "in 1 places" not in (tmp_path / "unit" / "model.py").read_text()
    unit = longhand.load(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    torch.testing.assert_close(unit(x, memory), model(x, memory))
