"""A norm's backward pass reads its tensors once: the sums down their columns go along with the rows, where it pays."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from longhand.lower.ir import Buffer, BufferKind, Nest, Reduce, Step
from longhand.options import Options
from longhand.schedule.fusion.column_fusion import take_column_reductions_along
from longhand.schedule.fusion.column_reductions import find_column_reductions
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.kernels.schedules.columns import COLUMNS
from longhand.schedule.kernels.schedules.rows_and_columns import ROWS_AND_COLUMNS
from tests.schedule import nests
from tests.schedule.execution import fresh_memory, run_nest, run_plan
from tests.schedule.nests import CPU, CUDA, NestMaker, f32


def hint(size: object) -> int:
    assert isinstance(size, int)
    return size


def together(*makers: NestMaker, kept: frozenset[str] = frozenset()) -> tuple[list[Step], dict[str, Buffer]]:
    """What is left of the nests, and their buffers; what one of them stores is made by the program."""
    buffers: dict[str, Buffer] = {}
    for make in makers:
        buffers |= make.buffers
    made = {value.buffer for make in makers for value in make.body if type(value).__name__ == "Store"}
    buffers = {
        name: dataclasses.replace(buffer, kind=BufferKind.INTERMEDIATE) if name in made else buffer
        for name, buffer in buffers.items()
    }
    return take_column_reductions_along([make.nest() for make in makers], buffers, kept, hint), buffers


def written(step: Step) -> set[str]:
    assert isinstance(step, Nest)
    return {value.buffer for value in step.body if type(value).__name__ == "Store"}


def test_rows_and_columns_of_a_norm_are_one_kernel() -> None:
    steps, buffers = together(
        nests.layer_norm_backward_rows(4096, 768), nests.layer_norm_backward_columns(4096, 768)
    )
    (one,) = steps
    assert written(one) == {"dx", "d_weight", "d_bias"}, "nothing reads the normalized rows any more"
    assert isinstance(one, Nest)
    plan, launch = plan_kernel(one, buffers, CUDA)
    assert plan.schedule is ROWS_AND_COLUMNS
    whole = 4096 * 768 * 2
    assert launch.bytes_moved == 3 * whole + 3 * 768 * 2, "x and dy are read once, dx is written"


def test_what_the_caller_sees_stays() -> None:
    makers = nests.layer_norm_backward_rows(8192, 768), nests.layer_norm_backward_columns(8192, 768)
    (one,) = together(*makers, kept=frozenset({"normalized"}))[0]
    assert written(one) == {"dx", "normalized", "d_weight", "d_bias"}


@pytest.mark.parametrize(
    ("rows", "cols"), [(128, 768), (4096, 8192)], ids=("few rows", "rows too long for the registers")
)
def test_where_it_would_not_pay_there_are_two(rows: int, cols: int) -> None:
    steps, _ = together(
        nests.layer_norm_backward_rows(rows, cols), nests.layer_norm_backward_columns(rows, cols)
    )
    assert len(steps) == 2


def test_a_sum_that_saves_a_single_reading_stays_apart() -> None:
    make = NestMaker(row=4096, col=768)
    make.store(
        "d_bias", "col", make.reduce(nests.ReduceOp.SUM, make.load("dx", "row col", nests.bf16), "row")
    )
    steps, _ = together(nests.layer_norm_backward_rows(4096, 768), make, kept=frozenset({"dx"}))
    assert len(steps) == 2


def test_sums_over_a_part_of_the_rows_stay_apart() -> None:
    """A position's embedding is summed over the batch alone."""
    rows = NestMaker(batch=64, seq=64, dim=768)
    x = rows.load("x", "batch seq dim")
    mean = rows.reduce(nests.ReduceOp.SUM, x, "dim") / rows.axis_size("dim")
    rows.store("centered", "batch seq dim", x - mean)
    columns = NestMaker(batch=64, seq=64, dim=768)
    product = columns.load("centered", "batch seq dim") * columns.load("x", "batch seq dim")
    columns.store("sums", "seq dim", columns.reduce(nests.ReduceOp.SUM, product, "batch"))
    assert len(together(rows, columns)[0]) == 2


def gelu_like(rows: int, cols: int) -> tuple[NestMaker, NestMaker]:
    """An elementwise nest, and the sums down the columns of what it makes."""
    elements = NestMaker(row=rows, col=cols)
    x, dy = elements.load("x", "row col"), elements.load("dy", "row col")
    elements.store("dx", "row col", dy * (x + 1.0))
    columns = NestMaker(row=rows, col=cols)
    columns.store("d_bias", "col", columns.reduce(nests.ReduceOp.SUM, columns.load("dx", "row col"), "row"))
    return elements, columns


@pytest.mark.parametrize("options", nests.DEVICES, ids=lambda options: options.target.device.value)
@pytest.mark.parametrize("rows", [300, 4096])
def test_what_makes_the_elements_adds_them_up(rows: int, options: Options) -> None:
    """The gradient of gelu, and of the bias before it: one reading, in chunks of the rows."""
    (one,), buffers = together(*gelu_like(rows, 512), kept=frozenset({"dx"}))
    assert written(one) == {"dx", "d_bias"} and isinstance(one, Nest)
    plan, launch = plan_kernel(one, buffers, options)
    assert plan.schedule is COLUMNS and len(plan.partials) == 1
    memory = fresh_memory(one.body, buffers)
    expected, actual = run_nest(one, memory), run_plan(plan, launch, memory)
    for name, tensor in expected.items():
        torch.testing.assert_close(actual[name], tensor, rtol=2e-5, atol=2e-4, msg=name)


def test_the_elements_of_few_rows_are_added_up_apart() -> None:
    assert len(together(*gelu_like(64, 512), kept=frozenset({"dx"}))[0]) == 2


@pytest.mark.parametrize("size", [(70, 37), (700, 100)])
def test_on_a_cpu_rows_have_several_loops_that_add_up(size: tuple[int, int]) -> None:
    make = nests.layer_norm_backward(*size, f32)
    plan, launch = plan_kernel(make.nest(), make.buffers, CPU)
    assert plan.schedule is ROWS_AND_COLUMNS and len(plan.partials) == 2
    adding = [number for number, one in enumerate(plan.passes) if one.sums]
    assert len(plan.passes) > max(adding) > min(adding), "each as early as its argument is there"
    memory = fresh_memory(make.nest().body, make.buffers)
    expected, actual = run_nest(make.nest(), memory), run_plan(plan, launch, memory)
    for name, tensor in expected.items():
        torch.testing.assert_close(actual[name], tensor, rtol=2e-5, atol=2e-5, msg=name)


@pytest.mark.parametrize("size", [(70, 37), (700, 100)])
def test_the_plan_means_what_the_nest_means(size: tuple[int, int]) -> None:
    make = nests.layer_norm_backward(*size, f32)
    plan, launch = plan_kernel(make.nest(), make.buffers, CUDA)
    (one,) = plan.passes
    sums = [position for position in one.reductions if isinstance(position, int)]
    assert len(sums) == len(plan.partials) == 2 and set(sums) <= set(plan.guards)
    assert sum(isinstance(plan.body[position], Reduce) for position in one.compute) == 4
    memory = fresh_memory(make.nest().body, make.buffers)
    expected, actual = run_nest(make.nest(), memory), run_plan(plan, launch, memory)
    for name, tensor in expected.items():
        torch.testing.assert_close(actual[name], tensor, rtol=2e-5, atol=2e-5, msg=name)


def test_only_final_sums_are_columns() -> None:
    """A maximum down the columns, or a sum that something is computed from, is none."""
    make = NestMaker(row=8, col=4)
    x = make.load("x", "row col")
    row_sum = make.reduce(nests.ReduceOp.SUM, x, "col")
    make.store("y", "row col", x - row_sum)
    make.store("most", "col", make.reduce(nests.ReduceOp.MAX, x, "row"))
    assert find_column_reductions(make.nest()) == ()
