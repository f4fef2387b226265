"""How many elements a program takes follows from how many there are, and how many of their values are alive at once."""

from __future__ import annotations

import pytest
import sympy

from longhand.lower.ir import ReduceOp
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.kernels.kernel_plan import KernelPlan
from longhand.schedule.kernels.schedules.elementwise import ENTRY
from longhand.schedule.kernels.schedules.entry import KernelWork
from longhand.schedule.kernels.schedules.registry import choose_tunables
from longhand.schedule.kernels.schedules.rows_persistent import ENTRY as ROWS
from longhand.schedule.targets import TRITON
from tests.schedule import nests
from tests.schedule.nests import NestMaker


def block_of(work: KernelWork) -> dict[str, int]:
    return {tunable.name: tunable.value for tunable in choose_tunables(ENTRY, TRITON, work)}


def planned(make: NestMaker) -> KernelPlan:
    return plan_kernel(make.nest(), make.buffers, nests.CUDA)[0]


def tunables_of(make: NestMaker) -> dict[str, int]:
    return {tunable.name: tunable.value for tunable in planned(make).tunables}


@pytest.mark.parametrize(
    ("live_words", "elements"), [(1, 2048), (8, 2048), (12, 2048), (19, 1024), (29, 512)]
)
def test_crowded_blocks_are_smaller(live_words: int, elements: int) -> None:
    work = KernelWork(has_rows=True, has_cols=True, element_bytes=4, live_words=live_words)
    assert block_of(work)["ELEMENTS"] == elements


def test_threads_have_fewer_elements_where_there_are_few() -> None:
    few, many = (
        block_of(KernelWork(has_rows=True, has_cols=True, element_bytes=2, is_small=is_small))
        for is_small in (True, False)
    )
    assert few["ELEMENTS"] < many["ELEMENTS"]
    assert few["ELEMENTS"] // few["NUM_WARPS"] < many["ELEMENTS"] // many["NUM_WARPS"]


def test_a_kernel_of_two_calls_has_the_block_of_the_larger() -> None:
    small, large = planned(nests.gelu_bias(64, 512)), planned(nests.gelu_bias(65536, 512))
    assert small.key == large.key
    assert small.tunables != large.tunables
    assert (small | large).tunables == (large | small).tunables == large.tunables


def test_rows_that_lie_across_memory_share_a_program() -> None:
    along, across = NestMaker(row=2048, col=256), NestMaker(row=2048, col=256)
    for make, dims in ((along, "row col"), (across, "col row")):
        x = make.load("x", dims)
        make.store("out", "row col", x / make.reduce(ReduceOp.SUM, x, "col"))
    assert tunables_of(across)["ELEMENTS"] > tunables_of(along)["ELEMENTS"]


@pytest.mark.parametrize(("rows", "cols"), [(128, 384), (1500, 384), (2048, 3072)])
def test_columns_are_added_up_by_many_programs(rows: int, cols: int) -> None:
    assert cols // tunables_of(nests.column_sum(rows, cols))["MAX_COLS"] >= 24


@pytest.mark.parametrize("is_varied", [False, True])
def test_rows_of_any_length_ask_for_no_more_warps_than_there_are(is_varied: bool) -> None:
    work = KernelWork(has_rows=True, has_cols=True, element_bytes=4, has_varied_cols=is_varied)
    names = {tunable.name for tunable in choose_tunables(ROWS, TRITON, work)}
    assert names == {"ELEMENTS", "NUM_WARPS" if is_varied else "WARP_ELEMENTS"}
    size = sympy.Symbol("n", integer=True, positive=True) if is_varied else 512
    make = NestMaker(row=64, col=size)
    x = make.load("x", "row col")
    make.store("out", "row col", x / make.reduce(ReduceOp.SUM, x, "col"))
    hints = {size: 512} if is_varied else {}
    plan = plan_kernel(make.nest(), make.buffers, nests.CUDA, hints=hints)[0]
    assert {tunable.name for tunable in plan.tunables} == names
