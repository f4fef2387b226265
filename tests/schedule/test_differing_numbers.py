"""Equal layers that differ in a number are launches of one kernel, whose argument it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import longhand
from longhand.lower.ir import Constant, PointwiseOp, Scalar
from longhand.schedule.differing_numbers import pass_differing_numbers
from tests.same_gradients import assert_same_gradients, unit_of

Op = PointwiseOp
SCALES = (0.2, 0.5, 0.65, 0.725, 0.7625, 0.78125)


class Layer(torch.nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.proj = torch.nn.Linear(16, 24)
        self.down = torch.nn.Linear(24, 16)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.tanh(self.proj(self.norm(x)))) * self.scale


class Net(torch.nn.Module):
    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(map(Layer, SCALES[:n_layers]))
        self.norm = torch.nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def scaled(program: Any, name: str, number: float, dtype: torch.dtype = torch.float32) -> None:
    x = program.input(f"x_{name}", 4, 8, dtype=dtype)
    program.pointwise(name, lambda b, v: b.op(Op.ADD, b.op(Op.MUL, v, number), 1.0), x)


def numbers(step: Any, kind: type) -> list[float]:
    return [value.value for value in step.body if isinstance(value, kind)]


def test_the_number_that_differs_is_an_argument_and_the_same_one_is_not(program: Any, run: Any) -> None:
    scaled(program, "a", 0.25)
    scaled(program, "b", 0.75)
    made = pass_differing_numbers(program.steps, program.buffers)
    assert [numbers(step, Scalar) for step in made] == [[0.25], [0.75]]
    assert [numbers(step, Constant) for step in made] == [[1.0], [1.0]]
    before = run(program.steps, program.buffers, program.inputs)
    for name, tensor in run(made, program.buffers, program.inputs).items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("one", "other"),
    [(0.25, 0.25), (0.25, float("inf")), (0.25, float("nan"))],
)
def test_what_is_no_difference_or_no_plain_number_stays(program: Any, one: float, other: float) -> None:
    scaled(program, "a", one)
    scaled(program, "b", other)
    assert pass_differing_numbers(program.steps, program.buffers) == tuple(program.steps)


def test_numbers_of_other_types_stay(program: Any) -> None:
    """Triton passes a number as float32: one of a kernel in float64 would lose half of its digits."""
    scaled(program, "a", 0.1, torch.float64)
    scaled(program, "b", 0.3, torch.float64)
    assert pass_differing_numbers(program.steps, program.buffers) == tuple(program.steps)


def _hold_against_the_model(model: torch.nn.Module, folder: Path, x: torch.Tensor, train: bool) -> None:
    torch.testing.assert_close(unit_of(model, folder)(x), model(x))
    if train:
        assert_same_gradients(model, folder, x)


@pytest.mark.parametrize("train", [False, True])
def test_deeper_models_have_no_more_kernels(train: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, n_kernels = torch.randn(5, 16), []
    for n_layers in (3, 6):
        model, out = Net(n_layers), tmp_path / f"unit{n_layers}"
        summary = longhand.generate(model, (x,), out=out, train=train)
        n_kernels.append(summary.n_kernels)
        _hold_against_the_model(model, out, x, train)
    assert n_kernels[0] == n_kernels[1]


@pytest.mark.parametrize("train", [False, True])
def test_layers_that_differ_in_a_number_are_a_loop_that_passes_it(train: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Net(6), torch.randn(5, 16)
    longhand.generate(model, (x,), out=tmp_path / "unit", train=train)
    text = " ".join((tmp_path / "unit/model.py").read_text().split())
    assert re.search(r"for [\w, ]+, scale in zip\( ?.*\(0\.2, 0\.5, 0\.65, 0\.725, 0\.7625[,)]", text)
    if train:
        text = " ".join((tmp_path / "unit/backward.py").read_text().split())
        assert re.search(r"for layer, scale in zip\( ?reversed\(range\(\d.*\(0\.7625, 0\.725, 0\.65", text)
    _hold_against_the_model(model, tmp_path / "unit", x, train)
