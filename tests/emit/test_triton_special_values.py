"""Rows with NaN, infinities and nothing but -inf come out of printed reductions as they do in eager."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from longhand.lower.ir import PointwiseOp, Reduce, ReduceOp
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.kernels.schedules.rows_persistent import ROWS_PERSISTENT
from longhand.schedule.numerics.nan_analysis import nan_may_be_dropped
from tests.emit.triton_units import interpret, job_for, printed, write_unit
from tests.schedule import nests
from tests.schedule.nests import CUDA, NestMaker, bf16, f32, i64

INF, NAN = float("inf"), float("nan")


def rows_of(cols: int) -> torch.Tensor:
    """Rows that differ in what is special about them; the last is plain."""
    rows = torch.randn(8, cols, generator=torch.Generator().manual_seed(0))
    rows[0, 3] = NAN
    rows[1] = -INF
    rows[2, 5] = INF
    rows[3, : cols // 2] = -INF
    rows[4] = torch.finfo(f32).min
    rows[5] = NAN
    rows[6, 0], rows[6, 1] = INF, -INF
    return rows


def softmax(rows: int, cols: int) -> NestMaker:
    make = NestMaker(row=rows, col=cols)
    x = make.load("x", "row col")
    numerator = make.op(PointwiseOp.EXP, x - make.reduce(ReduceOp.MAX, x, "col"))
    make.store("out", "row col", numerator / make.reduce(ReduceOp.SUM, numerator, "col"))
    return make


def log_softmax(rows: int, cols: int) -> NestMaker:
    make = NestMaker(row=rows, col=cols)
    x = make.load("x", "row col")
    shifted = x - make.reduce(ReduceOp.MAX, x, "col")
    total = make.reduce(ReduceOp.SUM, make.op(PointwiseOp.EXP, shifted), "col")
    make.store("out", "row col", shifted - make.op(PointwiseOp.LOG, total))
    return make


def maximum_and_softmax_sum(rows: int, cols: int) -> NestMaker:
    make = NestMaker(row=rows, col=cols)
    x = make.load("x", "row col")
    row_max = make.reduce(ReduceOp.MAX, x, "col")
    make.store("total", "row", make.reduce(ReduceOp.SUM, make.op(PointwiseOp.EXP, x - row_max), "col"))
    make.store("maximum", "row", row_max)
    return make


def log_of_sum(rows: int, cols: int) -> NestMaker:
    """As people write logsumexp: NaN where all of a row is -inf."""
    make = NestMaker(row=rows, col=cols)
    x = make.load("x", "row col")
    row_max = make.reduce(ReduceOp.MAX, x, "col")
    total = make.reduce(ReduceOp.SUM, make.op(PointwiseOp.EXP, x - row_max), "col")
    make.store("log_sum", "row", row_max + make.op(PointwiseOp.LOG, total))
    return make


def shifted_and_softmax(rows: int, cols: int) -> NestMaker:
    make = NestMaker(row=rows, col=cols)
    x = make.load("x", "row col")
    shifted = x - make.reduce(ReduceOp.MAX, x, "col")
    numerator = make.op(PointwiseOp.EXP, shifted)
    make.store("out", "row col", numerator / make.reduce(ReduceOp.SUM, numerator, "col"))
    make.store("shifted", "row col", shifted)
    return make


def sum_below_the_maximum_of_another(rows: int, cols: int) -> NestMaker:
    make = NestMaker(row=rows, col=cols)
    x, other = make.load("x", "row col"), make.load("other", "row col")
    shifted = other - make.reduce(ReduceOp.MAX, x, "col")
    make.store("total", "row", make.reduce(ReduceOp.SUM, make.op(PointwiseOp.EXP, shifted), "col"))
    return make


def extremes(rows: int, cols: int) -> NestMaker:
    make = NestMaker(row=rows, col=cols)
    x = make.load("x", "row col")
    make.store("maximum", "row", make.reduce(ReduceOp.MAX, x, "col"))
    make.store("minimum", "row", make.reduce(ReduceOp.MIN, x, "col"))
    make.store("argmax", "row", make.reduce(ReduceOp.ARGMAX, x, "col"), i64)
    make.store("argmin", "row", make.reduce(ReduceOp.ARGMIN, x, "col"), i64)
    return make


def other_rows(cols: int) -> torch.Tensor:
    """Nothing special about them."""
    return torch.randn(8, cols, generator=torch.Generator().manual_seed(1))


def eager(name: str, x: torch.Tensor) -> dict[str, torch.Tensor]:
    if name == "softmax":
        return {"out": torch.softmax(x, -1)}
    if name == "log_softmax":
        return {"out": torch.log_softmax(x, -1)}
    if name == "maximum_and_softmax_sum":
        row_max = x.amax(-1)
        return {"maximum": row_max, "total": (x - row_max[:, None]).exp().sum(-1)}
    if name == "log_of_sum":
        row_max = x.amax(-1)
        return {"log_sum": row_max + (x - row_max[:, None]).exp().sum(-1).log()}
    if name == "shifted_and_softmax":
        return {"out": torch.softmax(x, -1), "shifted": x - x.amax(-1, keepdim=True)}
    if name == "sum_below_the_maximum_of_another":
        return {"total": (other_rows(x.shape[1]) - x.amax(-1, keepdim=True)).exp().sum(-1)}
    return {"maximum": x.amax(-1), "minimum": x.amin(-1), "argmax": x.argmax(-1), "argmin": x.argmin(-1)}


# Each in registers and in a loop over a long row.
CASES = {
    (make.__name__, cols): make(8, cols)
    for make in (softmax, log_softmax, maximum_and_softmax_sum, log_of_sum, shifted_and_softmax)
    for cols in (60, 70_000)
} | {
    ("extremes", 60): extremes(8, 60),
    ("sum_below_the_maximum_of_another", 60): sum_below_the_maximum_of_another(8, 60),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], dict[str, torch.Tensor] | str]:
    folder: Path = tmp_path_factory.mktemp("special") / "unit"
    texts, jobs, buffers = {}, [], []
    for (name, cols), make in CASES.items():
        plan, launch = plan_kernel(make.nest(), make.buffers, CUDA)
        kernel = f"{name}_{plan.schedule.name}"
        assert cols < 1000 or plan.schedule is not ROWS_PERSISTENT
        # The interpreter takes long over reductions that Triton does not know: small blocks.
        text = printed(kernel, plan)
        for tunable, value in (("ELEMENTS", 512), ("COLS", 512), ("SPLITS", 4)):
            text = re.sub(rf"^{tunable} = \d+", f"{tunable} = {value}", text, flags=re.MULTILINE)
        texts[kernel] = text
        memory = {"x": rows_of(cols).flatten(), "other": other_rows(cols).flatten()}
        for buffer in make.buffers.values():
            memory.setdefault(buffer.name, torch.empty(buffer.shape, dtype=buffer.dtype).flatten())
        jobs.append(job_for(kernel, plan, launch, memory))
        buffers.append(launch.buffers)
    write_unit(folder, texts)
    return {
        case: actual if isinstance(actual, str) else dict(zip(names, actual, strict=True))
        for case, names, actual in zip(CASES, buffers, interpret(folder, jobs), strict=True)
    }


@pytest.mark.parametrize(("name", "cols"), CASES)
def test_special_rows(
    name: str, cols: int, results: dict[tuple[str, int], dict[str, torch.Tensor] | str]
) -> None:
    actual = results[name, cols]
    assert not isinstance(actual, str), actual
    for buffer, expected in eager(name, rows_of(cols)).items():
        got = actual[buffer].view(expected.shape)
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize(
    ("make", "may_drop"),
    [
        (softmax(4, 60), True),
        (log_softmax(4, 60), True),
        (nests.cross_entropy(4, 60), True),
        (maximum_and_softmax_sum(4, 60), False),
        (sum_below_the_maximum_of_another(4, 60), False),
        (extremes(4, 60), False),
    ],
)
def test_which_maxima_may_drop_nan(make: NestMaker, may_drop: bool) -> None:
    body = make.nest().body
    position = next(p for p, v in enumerate(body) if isinstance(v, Reduce) and v.op is ReduceOp.MAX)
    assert nan_may_be_dropped(body, position) is may_drop


def test_a_result_that_only_uses_the_maximum_keeps_nan() -> None:
    make = NestMaker(row=4, col=60)
    x = make.load("x", "row col", bf16)
    row_max = make.reduce(ReduceOp.MAX, x, "col")
    total = make.reduce(ReduceOp.SUM, make.op(PointwiseOp.EXP, x - row_max), "col")
    chosen = make.op(PointwiseOp.WHERE, make.op(PointwiseOp.LT, row_max, 0.0), total, row_max)
    make.store("out", "row", chosen)
    assert not nan_may_be_dropped(make.nest().body, int(row_max))
