"""Values added up at positions that are data, on CUDA: by a kernel's atomic additions, or by ATen's sort."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import longhand
from longhand.lower.interpreter import results_of, run_program
from longhand.lower.ir import Nest, Program, Store, Value
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target
from longhand.verify.checking import check_kernels
from tests.lower.conftest import OPTIONS, traced

ON_CUDA = Options(Target(Device.CUDA, "sm_90"))

Call = tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]


def index_put(x: torch.Tensor, index: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return (x * 2).index_put((index,), torch.tanh(rows), accumulate=True) + 1


def second_dimension(x: torch.Tensor, index: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return x.index_put((torch.arange(2, device=x.device)[:, None], index), rows, accumulate=True)


def pairs(x: torch.Tensor, one: torch.Tensor, other: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    picked: list[torch.Tensor | None] = [None, one, other]
    return torch.ops.aten.index_put(x.new_zeros(x.shape), picked, rows.exp(), True)


def apart(x: torch.Tensor, one: torch.Tensor, other: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    picked: list[torch.Tensor | None] = [one, None, other]
    return torch.ops.aten.index_put(x, picked, rows, True)


def broadcast(x: torch.Tensor, index: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    return x.index_put((index,), row, accumulate=True)


def index_add(x: torch.Tensor, index: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return x.index_add(-1, index, rows.relu(), alpha=0.5) * 2


def scatter_add(x: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x).scatter_add(0, index, values)


def scatter_sum(x: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return x.scatter_reduce(1, index, values, "sum")


def degrees(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    ones = torch.ones(index.shape, dtype=x.dtype, device=x.device)
    return torch.zeros(x.shape[0], dtype=x.dtype, device=x.device).index_add(0, index, ones) + x[:, 0]


def table_gradient(d_out: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.embedding_dense_backward(d_out, indices, 11, 3, False)


def messages(x: torch.Tensor, edges: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    sent = x[edges[0]] * weight[:, None]
    return torch.zeros_like(x).index_add(0, edges[1], sent).relu()


def calls(dtype: torch.dtype) -> Iterator[Call]:
    generator = torch.Generator().manual_seed(0)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    def positions(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=generator)

    yield index_put, (randn(5, 3), positions(-5, 5, 40), randn(40, 3))
    yield index_put, (randn(5, 3), positions(-5, 5, 4, 9).int(), randn(4, 9, 3))
    yield index_put, (randn(7), positions(-7, 7, 33), randn(33))
    yield second_dimension, (randn(2, 6, 17), positions(-6, 6, 2, 5), randn(2, 5, 17))
    yield pairs, (randn(3, 5, 6), positions(-5, 5, 9), positions(-6, 6, 9), randn(3, 9))
    yield apart, (randn(3, 4, 6), positions(0, 3, 9), positions(-6, 6, 9), randn(9, 4))
    yield broadcast, (randn(5, 130), positions(0, 5, 12), randn(130))
    yield index_add, (randn(2, 5, 7), positions(0, 7, 20), randn(2, 5, 20))
    yield index_add, (randn(1), positions(0, 1, 20), randn(20))
    yield scatter_add, (randn(4, 9), positions(0, 4, 13, 8), randn(15, 8))
    yield scatter_sum, (randn(4, 9), positions(0, 9, 3, 31), randn(4, 31))
    yield degrees, (randn(6, 2), positions(0, 6, 50))
    yield table_gradient, (randn(4, 7, 5), positions(0, 11, 4, 7))
    yield messages, (randn(6, 33), positions(0, 6, 2, 45), randn(45))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_values_are_added_in_a_kernel(dtype: torch.dtype, tmp_path: Path) -> None:
    given = list(calls(dtype))
    assert _kernels_of(given, tmp_path / "unit").count("tl.atomic_add") == len(given)


def _kernels_of(given: list[Call], unit: Path) -> str:
    """The text of the kernels of all calls in one unit: they compile for sm_90, and are right in the interpreter."""
    functions = [function for function, _ in given]

    def together(all_args: list[tuple[torch.Tensor, ...]]) -> list[torch.Tensor]:
        return [function(*args) for function, args in zip(functions, all_args, strict=True)]

    args = [args for _, args in given]
    longhand.generate(together, (args,), out=unit, device=Device.CUDA.value, arch="sm_90")
    assert not _library_calls(unit)
    checked = check_kernels(unit).kernels
    assert checked and all(one.is_right for one in checked)
    return "".join(path.read_text() for path in (unit / "kernels").glob("*.py"))


def _library_calls(unit: Path) -> set[str]:
    texts = [path.read_text() for path in unit.glob("*.py") if path.name != "check.py"]
    code = re.sub(r'""".*?"""', "", "\n".join(texts), flags=re.DOTALL)
    lines = (line.partition("#")[0] for line in code.splitlines())
    return set(
        re.findall(
            r"(?<!kernels)\.(index_put|index_add|scatter_\w+|embedding_dense_backward)_?\(", "\n".join(lines)
        )
    )


class Words(torch.nn.Module):
    """A table whose word 3 is learned nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(11, 5, padding_idx=3)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.table(words))


def test_padding_of_a_table_learns_nothing(tmp_path: Path) -> None:
    words = torch.randint(0, 11, (6, 7))
    longhand.generate(
        Words(), (words,), out=tmp_path / "unit", device=Device.CUDA.value, arch="sm_90", train=True
    )
    kernels = "".join(path.read_text() for path in (tmp_path / "unit/kernels").glob("*.py"))
    assert kernels.count("tl.atomic_add") == 1 and "!= 3" in kernels
    assert all(one.is_right for one in check_kernels(tmp_path / "unit").kernels)


def test_a_position_out_of_range_shows() -> None:
    graph = traced(index_put, (torch.zeros(5, 3), torch.zeros(4, dtype=torch.int64), torch.zeros(4, 3)))
    program = lower(graph, ON_CUDA)
    assert any(isinstance(value, Store) and value.adds for value in _values(program))
    for bad in (5, -6, 2**40):
        names = [entry.node for entry in graph.inputs]
        given = torch.zeros(5, 3), torch.tensor([1, bad, -5, 4]), torch.ones(4, 3)
        inputs = dict(zip(names, given, strict=True))
        (found,) = results_of(program, run_program(program, inputs), inputs)
        assert found[0].isnan().all() and not found[1:].isnan().any()


def _values(program: Program) -> list[Value]:
    return [value for step in program.steps if isinstance(step, Nest) for value in step.body]


@pytest.mark.parametrize("is_on", [True, False])
def test_deterministic_algorithms_are_left_to_aten(is_on: bool) -> None:
    args = torch.zeros(5, 3), torch.zeros(4, dtype=torch.int64), torch.zeros(4, 3)
    torch.use_deterministic_algorithms(is_on)
    try:
        program = lower(traced(index_put, args), ON_CUDA)
    finally:
        torch.use_deterministic_algorithms(False)
    assert any(isinstance(value, Store) and value.adds for value in _values(program)) is not is_on


@pytest.mark.parametrize(
    "args",
    [
        (torch.zeros(4, 9), torch.zeros(3, 1, dtype=torch.int64).expand(3, 8), torch.zeros(3, 8)),
        (torch.zeros(4, 9).long(), torch.zeros(3, 8, dtype=torch.int64), torch.zeros(3, 8).long()),
        (torch.zeros(0, 9), torch.zeros(0, 8, dtype=torch.int64), torch.zeros(3, 8)),
    ],
)
def test_what_no_kernel_of_ours_adds_is_left_to_aten(args: tuple[torch.Tensor, ...]) -> None:
    """All of a row into one element, whole numbers, and nothing."""

    def along(x: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x.scatter_add(1, index, values)

    program = lower(traced(along, args), ON_CUDA)
    assert not any(isinstance(value, Store) and value.adds for value in _values(program))


def test_on_the_cpu_aten_adds() -> None:
    args = torch.zeros(5, 3), torch.zeros(4, dtype=torch.int64), torch.zeros(4, 3)
    assert not any(isinstance(v, Store) and v.adds for v in _values(lower(traced(index_put, args), OPTIONS)))


def few(dtype: torch.dtype) -> Iterator[Call]:
    """Hundreds of values for each of a few places."""
    generator = torch.Generator().manual_seed(0)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    def positions(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=generator)

    yield index_put, (randn(2, 3), positions(-2, 2, 513), randn(513, 3))
    yield index_add, (randn(4, 3), positions(0, 3, 800), randn(4, 800))
    yield scatter_sum, (randn(5, 2), positions(0, 2, 5, 700), randn(5, 700))
    yield scatter_add, (randn(3, 4), positions(0, 3, 900, 4), randn(901, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_few_places_have_a_sum_each(dtype: torch.dtype, tmp_path: Path) -> None:
    given = list(few(dtype))
    torch.use_deterministic_algorithms(True)  # it is
    try:
        kernels = _kernels_of(given, tmp_path / "unit")
    finally:
        torch.use_deterministic_algorithms(False)
    assert kernels.count("tl.sum") == len(given) and "tl.atomic_add" not in kernels
    # Each sum is of one place, and what the places are counted by is one number with one word.
    assert kernels.count("== place, ") >= 2 * len(given) and kernels.count("(n_places, ") >= 2
    assert not re.search(r"lane_index|n_lanes|masked_|in_table", kernels)


def test_types_of_words_learn_in_a_kernel(tmp_path: Path) -> None:
    words = torch.randint(0, 11, (60, 70))
    longhand.generate(
        Words(), (words,), out=tmp_path / "unit", device=Device.CUDA.value, arch="sm_90", train=True
    )
    kernels = "".join(path.read_text() for path in (tmp_path / "unit/kernels").glob("*.py"))
    assert "has_place" in kernels and "tl.atomic_add" not in kernels
    assert not _library_calls(tmp_path / "unit")
    assert all(one.is_right for one in check_kernels(tmp_path / "unit").kernels)


@pytest.mark.parametrize(
    ("n_rows", "n_added", "is_ours"), [(33, 40, True), (33, 8448, True), (33, 8449, False)]
)
def test_where_many_meet_at_one_aten_sorts(n_rows: int, n_added: int, is_ours: bool, tmp_path: Path) -> None:
    args = torch.randn(n_rows, 3), torch.randint(-n_rows, n_rows, (n_added,)), torch.randn(n_added, 3)
    longhand.generate(index_put, args, out=tmp_path / "unit", device=Device.CUDA.value, arch="sm_90")
    kernels = "".join(path.read_text() for path in (tmp_path / "unit/kernels").glob("*.py"))
    assert ("tl.atomic_add" in kernels) is is_ours
    assert bool(_library_calls(tmp_path / "unit")) is not is_ours
