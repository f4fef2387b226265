"""What a CUDA kernel counts in 64 bits: only what can pass 2**31, from sizes and from the ends of ranges."""

from __future__ import annotations

import dataclasses

import pytest
import sympy

from longhand.lower.ir import ReduceOp
from longhand.schedule.kernels.index_width import MOST, largest
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.kernels.kernel_plan import IndexWidths, KernelPlan
from tests.schedule import nests
from tests.schedule.nests import CPU, CUDA, NestMaker, bf16, i64


def planned(make: NestMaker, options=CUDA, **limits: int | None) -> KernelPlan:
    found = {symbol: limits[symbol.name] for symbol in _symbols(make) if symbol.name in limits}
    return plan_kernel(make.nest(), make.buffers, options, limits=found)[0]


def _symbols(make: NestMaker) -> set[sympy.Symbol]:
    return {symbol for axis in make.axes for symbol in getattr(axis.size, "free_symbols", ())}


def size(name: str) -> sympy.Symbol:
    return sympy.Symbol(name, positive=True, integer=True)


def column_sums(rows: int, cols: int) -> NestMaker:
    make = NestMaker(row=rows, col=cols)
    make.store("out", "col", make.reduce(ReduceOp.SUM, make.load("x", "row col", bf16), "row"), bf16)
    return make


def test_small_sizes_need_nothing() -> None:
    for make in (nests.rms_norm(16384, 4096), nests.softmax_with_bias(64, 128), column_sums(4096, 4096)):
        widths = planned(make).widths
        assert not any((*widths.axes, *widths.counts, widths.split, widths.flat_grid))


def test_rows_times_columns_widen_the_rows_alone() -> None:
    widths = planned(nests.rms_norm(2**20, 4096)).widths
    assert widths.axes == (True, False) and not any(widths.counts)
    assert planned(nests.rms_norm(2**20, 4096), CPU).widths == IndexWidths()


@pytest.mark.parametrize(
    ("n", "is_wide"), [(MOST - 1, False), (MOST, True), (2**31 - 1, True), (2**33, True)]
)
def test_one_grid_of_margin(n: int, is_wide: bool) -> None:
    make = NestMaker(n=n)
    make.store("out", "n", make.load("x", "n") + 1.0)
    widths = planned(make).widths
    assert widths.axes == widths.counts == (is_wide,)


def test_columns_that_are_far_apart_are_wide() -> None:
    make = NestMaker(row=4, col=5)
    make.buffer("x", (5, 2**30))
    make.store("out", "row col", make.load("x", make.index(row=1, col=2**30)))
    plan = planned(make)
    wide = {axis.name for axis, flag in zip(plan.axes, plan.widths.axes, strict=True) if flag}
    assert wide == {"col"}


def test_summands_that_fit_one_by_one_do_not_add_up() -> None:
    make = NestMaker(a=30000, b=2, col=30000)
    make.buffer("x", (2**31,))
    make.store("out", "a b col", make.load("x", make.index(a=40000, b=10**9, col=1)))
    assert planned(make).has_wide_index(["a"])


@pytest.mark.parametrize("maximum", [None, 4096])
def test_a_range_ends_where_it_says(maximum: int | None) -> None:
    widths = planned(nests.rms_norm(size("s0"), 1024), s0=maximum).widths
    assert any(widths.axes) is (maximum is None)


def test_the_upper_end_of_products_and_sums() -> None:
    a, b = size("a"), size("b")
    limits = {a: 100, b: 7}
    assert largest(3 * a * b + 5, limits) == 2105
    assert largest(a - b, limits) == 100
    assert largest(-a, limits) == 100
    assert largest(a**2, limits) == 10000
    assert largest(a * size("c"), limits) == float("inf")
    assert largest(sympy.floor(a / 2), limits) == float("inf")


def test_chunks_are_counted_in_64_bits_where_their_ends_are() -> None:
    make = NestMaker(n=46340**2)
    make.store("out", "", make.reduce(ReduceOp.SUM, make.load("x", "n", bf16), "n"), bf16)
    assert planned(make).widths.split
    assert planned(column_sums(2**26, 48)).widths.axes == (True, False)


def test_blocks_of_columns_beyond_the_second_side_of_a_grid() -> None:
    def by_row(cols: int) -> NestMaker:
        make = NestMaker(row=3, col=cols)
        make.store("out", "row col", make.load("x", "row col") + make.load("r", "row"))
        return make

    assert not planned(by_row(2**20)).widths.flat_grid
    assert planned(by_row(2**26)).widths.flat_grid


def test_one_kernel_serves_small_and_large_calls() -> None:
    small, large = planned(nests.rms_norm(64, 4096)), planned(nests.rms_norm(2**20, 4096))
    assert small.key == large.key and small.widths != large.widths
    assert small.widths | large.widths == large.widths | small.widths == large.widths
    assert IndexWidths() | large.widths == large.widths
    assert dataclasses.replace(large, widths=IndexWidths()).key == large.key


def test_kernels_of_large_tensors_say_so() -> None:
    def row_of_table(rows: int) -> NestMaker:
        make = NestMaker(row=8, col=64)
        at = make.load("at", "row", i64)
        make.buffer("table", (rows, 64))
        make.store("out", "row col", make.load("table", make.index(values=((at, 64),), col=1)))
        return make

    assert not planned(row_of_table(1000)).widths.large
    widths = planned(row_of_table(2**26)).widths
    assert widths.large and not any(widths.axes), "positions that are data have 64 bits anyway"
    assert planned(nests.rms_norm(2**20, 4096)).widths.large
