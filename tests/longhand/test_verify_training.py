"""`verify` of a unit that trains compares gradients: a wrong one in backward.py is found."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.factory import Call
from longhand.verify.training_check import compare_training


class Small(nn.Module):
    """Tied weights, a frozen parameter, a buffer that is written, dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.3)
        self.mix = nn.Linear(8, 8)
        self.mix.bias.requires_grad_(False)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(torch.tanh(self.mix(self.norm(self.embed(tokens)) * scale))))


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Call]:
    """A unit of the model, and the call."""
    torch.manual_seed(0)
    call = Call(Small().train(), (torch.randint(0, 11, (9,)), torch.rand(8, requires_grad=True)), {})
    folder = tmp_path_factory.mktemp("training") / "unit"
    longhand.generate(call.model, call.args, out=folder, train=True)
    return folder, call


def test_everything_of_a_step_is_compared(unit: tuple[Path, Call]) -> None:
    folder, call = unit
    found = compare_training(longhand.load(folder), call)
    assert not [comparison for comparison in found if not comparison.is_right]
    names = {comparison.name for comparison in found}
    assert {"result", "gradient of argument[1]", "gradient of mix.weight", "gradient of head.weight"} <= names
    assert "norm.running_mean after the call" in names
    assert "gradient of mix.bias" not in names
    assert all(parameter.grad is None for parameter in call.model.parameters())


def test_a_wrong_gradient_is_found(unit: tuple[Path, Call]) -> None:
    folder, call = unit
    backward = folder / "backward.py"
    text = backward.read_text()
    last = text.rindex("return")
    assert "d_mix_weight" in text[last:]
    try:
        backward.write_text(text[:last] + text[last:].replace("d_mix_weight", "d_mix_weight * 1.01"))
        found = compare_training(longhand.load(folder, check=False), call)
    finally:
        backward.write_text(text)
    assert [one.name for one in found if not one.is_right] == ["gradient of mix.weight"]


class Windowed(nn.Module):
    """Attention within a window, whose mask no input decides."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (6, 8)).transpose(1, 2).split(2, 1)
        row, col = torch.arange(13)[:, None], torch.arange(13)[None, :]
        allowed = (col <= row) & (row - col < 4)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)


def test_a_table_of_the_units_own_is_right_while_it_stays(tmp_path: Path) -> None:
    torch.manual_seed(0)
    call = Call(Windowed(), (torch.randn(2, 13, 16),), {})
    longhand.generate(call.model, call.args, out=tmp_path / "unit", train=True)
    unit = longhand.load(tmp_path / "unit")
    tables = [name for name, _ in unit().named_buffers()]
    assert tables, "the mask is no table any more: this needs another model"
    found = {comparison.name: comparison for comparison in compare_training(unit, call)}
    assert not [name for name, comparison in found.items() if not comparison.is_right]
    assert found[f"{tables[0]} after the call"].is_right

    class Writing(unit):  # type: ignore[misc, valid-type]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result = super().forward(x)
            getattr(self, tables[0]).data.zero_()
            return result

    wrong = [comparison.name for comparison in compare_training(Writing, call) if not comparison.is_right]
    assert f"{tables[0]} after the call" in wrong


def test_the_gradients_of_the_results_are_the_same_in_float64() -> None:
    class Sum(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    torch.manual_seed(0)
    call = Call(Sum(), tuple(torch.randn(2, 64, dtype=torch.bfloat16, requires_grad=True).unbind()), {})
    rows = {row.name: row for row in compare_training(Sum, call)}
    assert rows["gradient of argument[0]"].scale and rows["gradient of argument[0]"].eager_error == 0


class Zeroed(nn.Module):
    """Gives x gradients of `factor`, or none at all."""

    def __init__(self, factor: float | None) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y * 2 if self.factor is None else y * 2 + x * self.factor


@pytest.mark.parametrize(("factor", "is_right"), [(0.0, True), (1e-3, False)])
def test_no_gradient_is_a_gradient_of_zero(factor: float, is_right: bool) -> None:
    x, y = torch.randn(2, 8).unbind()
    args = (x.requires_grad_(), y.requires_grad_())
    for eager, ours in ((factor, None), (None, factor)):
        rows = {
            row.name: row
            for row in compare_training(lambda ours=ours: Zeroed(ours), Call(Zeroed(eager), args, {}))
        }
        assert rows["gradient of argument[0]"].is_right is is_right


class Counted(nn.Module):
    """A layer beside buffers that no result depends on, one of which may be counted up."""

    def __init__(self, counts: bool) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.counts = counts
        self.register_buffer("original_frequencies", torch.tensor([1.0, float("nan")]), persistent=False)
        self.register_buffer("n_calls", torch.zeros(()), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.counts:
            self.n_calls.add_(1)
        return self.fc(x).relu()


@pytest.mark.parametrize(("counts", "wrong"), [(False, []), (True, ["n_calls after the call"])])
def test_a_buffer_that_only_the_original_has_counts_where_the_step_changes_it(
    tmp_path: Path, counts: bool, wrong: list[str]
) -> None:
    """The unit is of the model that counts nothing: it has none of the two buffers."""
    torch.manual_seed(0)
    x = torch.randn(3, 4)
    longhand.generate(Counted(False), (x,), out=tmp_path / "unit", train=True)  # which tries the unit, too
    unit = longhand.load(tmp_path / "unit")
    assert not [name for name, _ in unit().named_buffers()]
    found = compare_training(unit, Call(Counted(counts), (x,), {}))
    assert [one.name for one in found if not one.is_right] == wrong
