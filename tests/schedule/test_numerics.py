"""The numerics of a plan: what printers are told of precision, and need not find out."""

from __future__ import annotations

import torch

from longhand.lower.ir import Load, PointwiseOp, ReduceOp
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.kernels.kernel_plan import KernelPlan
from longhand.schedule.kernels.schedules.rows_looped import ROWS_LOOPED
from tests.schedule.nests import CPU, CUDA, NestMaker, bf16, f32

COLS = 3000  # too many for a CPU to hold, few enough not to be split


def planned(make: NestMaker, options=CPU) -> KernelPlan:
    plan, _ = plan_kernel(make.nest(), make.buffers, options)
    return plan


def row_sum(stored: torch.dtype, through: PointwiseOp | None = None) -> NestMaker:
    make = NestMaker(row=64, col=COLS)
    total = make.reduce(ReduceOp.SUM, make.load("x", "row col"), "col")
    make.store("out", "row", make.op(through, total) if through else total, stored)
    return make


def softmax(also_stores_sum: bool) -> NestMaker:
    make = NestMaker(row=64, col=COLS)
    x = make.load("x", "row col")
    power = make.op(PointwiseOp.EXP, x - make.reduce(ReduceOp.MAX, x, "col"))
    total = make.reduce(ReduceOp.SUM, power, "col")
    make.store("weights", "row col", power / total)
    if also_stores_sum:
        make.store("total", "row", total)
    return make


def test_a_sum_is_wide_where_its_rounding_shows() -> None:
    assert len(planned(row_sum(f32)).numerics.sums_in_double) == 1
    assert not planned(row_sum(bf16)).numerics.sums_in_double  # 16 bits hide it
    assert not planned(row_sum(f32, PointwiseOp.LOG)).numerics.sums_in_double  # a logarithm damps it
    assert not planned(row_sum(f32), CUDA).numerics.sums_in_double


def test_a_sum_is_inverted_where_a_row_is_all_that_it_divides() -> None:
    plan = planned(softmax(also_stores_sum=False))
    assert plan.schedule is ROWS_LOOPED
    assert plan.numerics.inverted_sums
    assert not planned(softmax(also_stores_sum=True)).numerics.inverted_sums
    assert not planned(softmax(also_stores_sum=False), CUDA).numerics.inverted_sums


def test_a_maximum_drops_nan_where_the_sum_shows_it() -> None:
    for options in (CPU, CUDA):
        assert planned(softmax(also_stores_sum=False), options).numerics.drops_nan
    make = NestMaker(row=64, col=COLS)
    make.store("largest", "row", make.reduce(ReduceOp.MAX, make.load("x", "row col"), "col"))
    assert not planned(make).numerics.drops_nan


def choice(also_adds: bool) -> NestMaker:
    make = NestMaker(row=64, col=COLS)
    x, y = make.load("x", "row col", bf16), make.load("y", "row col", bf16)
    is_first = make.op(PointwiseOp.LT, make.position(col=1), 7)
    make.store("chosen", "row col", make.op(PointwiseOp.WHERE, is_first, x, y), bf16)
    if also_adds:
        make.store("sum", "row col", x + y, bf16)
    return make


def test_what_is_only_moved_is_copied() -> None:
    plan = planned(choice(also_adds=False))
    copied = [plan.body[position] for position in sorted(plan.numerics.copied)]
    assert [value.name for value in copied if isinstance(value, Load)] == ["x", "y"]
    assert len(copied) == 3  # and the choice
    assert not planned(choice(also_adds=True)).numerics.copied
