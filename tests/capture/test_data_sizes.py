"""Sizes that only the data tell: in a generated unit such tensors are ATen's, in `compile` a graph ends before them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from torch import nn

import longhand
from longhand.capture.frontends.export import capture_export
from longhand.errors import CaptureError
from longhand.lower.interpreter import results_of, run_program
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target


def positions(x):
    return torch.nonzero(x)


def elements(x):
    return x[x > 0] * 2


def distinct(x):
    return torch.unique(x, return_inverse=True, return_counts=True)


def columns(x):
    mask = x[0] > 0
    return x[:, mask].exp()


def in_kernels_again(x):
    return torch.relu(x + x[x > 0].sum()) * 2


def several(x):
    rows, cols = torch.where(x > 0)
    chosen = x[rows]
    return torch.softmax(chosen, -1) @ torch.ones(4, 4), rows + cols


def only_the_size(x):
    return torch.zeros(torch.nonzero(x).shape[0], 2)


def of_a_size(x):
    values, places = torch.unique(x, return_inverse=True)
    return torch.zeros(values.shape[0]).index_add(0, places.flatten(), torch.ones(12))


def arithmetic_of_sizes(x):
    chosen = x[x > 0]
    return torch.cat([chosen, chosen]), torch.arange(2 * chosen.shape[0] + 1)


def changed_in_place(x):
    chosen = x[x > 0]
    chosen += 1
    return chosen


def with_words_that_are_taken(x, n_index):
    chosen = (x + n_index)[x > 0]
    return torch.zeros(chosen.shape[0] * 2) + n_index.sum()


class Routed(nn.Module):
    """What mixtures of experts do: some rows through one layer."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        chosen = x.sum(-1) > 0
        out = torch.zeros_like(x)
        out[chosen] = self.lin(torch.relu(self.lin(x))[chosen])
        return out + 1


FUNCTIONS = (
    positions,
    elements,
    distinct,
    columns,
    in_kernels_again,
    several,
    only_the_size,
    of_a_size,
    arithmetic_of_sizes,
    changed_in_place,
)
GIVEN = (
    torch.zeros(3, 4),  # none
    torch.cat([torch.ones(1), torch.zeros(11)]).reshape(3, 4),  # one
    torch.eye(3, 4),
    torch.arange(-2.0, 10.0).reshape(3, 4),
    torch.ones(3, 4),  # all
)
each_function = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)


def _described(tree: Any) -> Any:
    return pytree.tree_map(lambda value: (value.dtype, value.shape, value.stride()), tree)


def _same_as_in_eager(found: Callable[..., Any], function: Callable[..., Any]) -> None:
    for given in GIVEN:
        expected = function(given.clone())
        with torch.no_grad():
            got = found(given.clone())
        torch.testing.assert_close(got, expected)
        assert _described(pytree.tree_leaves(got)) == _described(pytree.tree_leaves(expected))


@each_function
def test_a_unit_makes_tensors_of_sizes_that_the_data_tell(function: Any, tmp_path: Path) -> None:
    longhand.generate(function, (GIVEN[3],), out=tmp_path / "unit")
    _same_as_in_eager(longhand.load(tmp_path / "unit"), function)


@pytest.mark.parametrize("dims", [(2, 3, 4), (2, 3, 4, 5)])
def test_of_images_and_signals(dims: tuple[int, ...], tmp_path: Path) -> None:
    """Their dimensions get words by comparing shapes, one of which nobody knows."""
    given = torch.randn(dims)
    for function in (positions, elements):
        longhand.generate(function, (given,), out=tmp_path / function.__name__)
        unit = longhand.load(tmp_path / function.__name__)
        torch.testing.assert_close(unit(given), function(given))


def test_layers_that_each_select_rows(tmp_path: Path) -> None:
    model = nn.Sequential(*(Routed() for _ in range(4))).eval()
    longhand.generate(model, (GIVEN[3],), out=tmp_path / "unit")
    unit = longhand.load(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    with torch.no_grad():
        _same_as_in_eager(unit, model)


def test_a_size_has_a_name_of_its_own(tmp_path: Path) -> None:
    given = GIVEN[3], torch.ones(3, 4)
    longhand.generate(with_words_that_are_taken, given, out=tmp_path / "unit")
    found = longhand.load(tmp_path / "unit")
    torch.testing.assert_close(found(*given), with_words_that_are_taken(*given))


def test_rows_that_a_mask_selects_go_through_a_layer(tmp_path: Path) -> None:
    model = Routed().eval()
    longhand.generate(model, (GIVEN[3],), out=tmp_path / "unit")
    unit = longhand.load(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    with torch.no_grad():
        _same_as_in_eager(unit, model)


@each_function
def test_the_loop_program_computes_the_same(function: Any) -> None:
    target = Target(Device.CPU)
    program = lower(capture_export(function, (GIVEN[3],), target=target), Options(target=target))

    def interpreted(x: torch.Tensor) -> Any:
        inputs = {"x": x}
        return results_of(program, run_program(program, inputs), inputs)

    for given in GIVEN:
        expected = pytree.tree_leaves(function(given.clone()))
        torch.testing.assert_close(interpreted(given.clone()), expected)


@each_function
def test_compile_runs_them_too(function: Any) -> None:
    _same_as_in_eager(longhand.compile(function), function)


def test_a_size_that_nothing_reads_has_no_line(tmp_path: Path) -> None:
    longhand.generate(elements, (GIVEN[3],), out=tmp_path / "unit")
    assert ".shape[0]" not in (tmp_path / "unit" / "model.py").read_text()


def test_on_a_gpu_such_a_unit_is_not_recorded(tmp_path: Path) -> None:
    """A replayed graph would have the sizes of the call that was recorded."""
    functions = {"unit": in_kernels_again, "number": total, "plain": without_data_sizes}
    for name, function in functions.items():
        longhand.generate(
            function, (GIVEN[3],), out=tmp_path / name, device="cuda", arch="sm_90", mode="reduce-overhead"
        )
    assert "CudaGraph" not in (tmp_path / "unit" / "model.py").read_text()
    assert "CudaGraph" not in (tmp_path / "number" / "model.py").read_text()
    assert "CudaGraph" in (tmp_path / "plain" / "model.py").read_text()


def without_data_sizes(x):
    return torch.relu(x + 1)


def required(x):
    chosen = x[x > 0]
    torch._check(chosen.shape[0] == 10)
    return chosen


def required_at_most(x):
    chosen = x[x > 0]
    torch._check(chosen.shape[0] <= 11)
    return chosen * 2


def broadcast_with_a_fixed_size(x):
    return x[x > 0] + torch.arange(10.0)


def branch(x):
    chosen = x[x > 0]
    return chosen.sum() if chosen.numel() > 3 else chosen.mean()


def total(x):
    return x.sum().item()


def truth(x):
    return (x > 0).any().item(), x * 2


def count(x):
    return (x > 0).sum().item()


def is_equal(x):
    return torch.equal(x, x.abs()), x.equal(x[0]), torch.equal(x, x)


def is_close(x):
    return torch.allclose(x, x.abs(), rtol=1e-3), x.allclose(x, equal_nan=True)


def one_element(x):
    return x[1, 1].item(), x.half()[0, 0].item()


@pytest.mark.parametrize("function", [total, truth, count, is_equal, is_close, one_element])
@pytest.mark.parametrize("door", ["generate", "compile"])
def test_a_number_that_the_data_tell_is_returned(function: Any, door: str, tmp_path: Path) -> None:
    if door == "generate":
        longhand.generate(function, (GIVEN[3],), out=tmp_path / "unit")
        found = longhand.load(tmp_path / "unit")
    else:
        found = longhand.compile(function)
    for given in (*GIVEN, torch.full((3, 4), torch.nan)):
        expected, got = function(given.clone()), found(given.clone())
        torch.testing.assert_close(got, expected, equal_nan=True)
        assert pytree.tree_map(type, got) == pytree.tree_map(type, expected)


def test_tensors_of_two_types_are_not_compared(tmp_path: Path) -> None:
    def compared(x):
        return torch.equal(x, x.half())

    with pytest.raises(CaptureError):
        longhand.generate(compared, (GIVEN[3],), out=tmp_path / "unit")


def calculated(x):
    return x.sum().item() + 1


def calculated_with(x):
    return x * x.sum().item()


def how_many(x):
    return torch.nonzero(x).shape[0]


@pytest.mark.parametrize("function", [calculated, calculated_with, how_many])
def test_what_is_calculated_from_such_a_number_is_refused(function: Any, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="depends on the data"):
        longhand.generate(function, (GIVEN[3],), out=tmp_path / "unit")


@pytest.mark.parametrize(
    "function",
    [required, required_at_most, broadcast_with_a_fixed_size, branch],
    ids=lambda one: one.__name__,
)
def test_what_is_required_of_such_a_size_is_refused(function: Any, tmp_path: Path) -> None:
    """A graph has no checks: it would go on where eager raises."""
    with pytest.raises(CaptureError, match=r"depends on the data|only known when it runs"):
        longhand.generate(function, (torch.arange(-1.0, 11.0).reshape(3, 4),), out=tmp_path / "unit")


def test_in_training_they_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="depends on the data"):
        longhand.generate(elements, (GIVEN[3].requires_grad_(),), out=tmp_path / "unit", train=True)
