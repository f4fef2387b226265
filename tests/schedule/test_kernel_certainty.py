"""Comparisons of positions and gathers that the sizes of a call make plain."""

from __future__ import annotations

import sympy

from longhand.lower.ir import IndexExpression, Load, PointwiseOp
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.plan import KernelPlan, ParameterRef
from tests.schedule import nests
from tests.schedule.execution import fresh_memory, run_nest, run_plan
from tests.schedule.nests import CUDA, NestMaker, i64


def position_embedding(seq, rows) -> NestMaker:
    """table[arange(seq)] with a bounds check, for a table of `rows` rows."""
    make = NestMaker(seq=seq, dim=8)
    make.buffer("table", (rows, 8))
    place = make.position(seq=1)
    inside = make.op(PointwiseOp.LT, place, make.scalar(rows, "table_size", i64))
    low = make.op(PointwiseOp.GE, place, 0)
    mask = make.op(PointwiseOp.LOGICAL_AND, low, inside)
    row = make.load("table", make.index(dim=1, values=((place, 8),)), mask=mask)
    make.store("out", "seq dim", row + make.load("x", "seq dim"))
    return make


def planned(make: NestMaker) -> KernelPlan:
    plan, launch = plan_kernel(make.nest(), make.buffers, CUDA)
    if all(isinstance(size, int) for size in launch.sizes):
        memory = fresh_memory(make.nest().body, make.buffers)
        expected = run_nest(make.nest(), memory)
        actual = run_plan(plan, launch, memory)
        assert all(actual[name].equal(tensor) for name, tensor in expected.items())
    return plan


def loads(plan: KernelPlan) -> dict[str, Load]:
    return {value.buffer: value for value in plan.body if isinstance(value, Load)}


def test_positions_that_fit_are_a_plain_load() -> None:
    plan = planned(position_embedding(5, 9))
    assert loads(plan)["table"].mask is None and not loads(plan)["table"].index.values
    assert len(plan.axes) == 1 and plan.scalars == (), "all is contiguous then"


def test_positions_that_may_not_fit_stay_checked() -> None:
    plan = planned(position_embedding(9, 5))
    assert loads(plan)["table"].mask is not None and len(plan.scalars) == 1
    seq = sympy.Symbol("s0", positive=True, integer=True)
    assert loads(planned(position_embedding(seq, 64)))["table"].mask is not None
    assert loads(planned(position_embedding(seq, seq + 1)))["table"].mask is None


def test_wrapping_of_positions_goes() -> None:
    make = NestMaker(seq=5, dim=8)
    place = make.position(seq=1)
    negative = make.op(PointwiseOp.LT, place, 0)
    wrapped = make.op(PointwiseOp.WHERE, negative, place + 9, place)
    make.buffer("table", (9, 8))
    make.store("out", "seq dim", make.load("table", make.index(dim=1, values=((wrapped, 8),))) * 2.0)
    plan = planned(make)
    assert not any(isinstance(value, IndexExpression) for value in plan.body)


def test_offsets_of_equal_size_are_one_argument() -> None:
    make = NestMaker(row=4, col=6)
    make.buffer("x", (4, 20))
    ahead = make.load("x", make.index(9, row=20, col=1))
    behind = make.load(
        "x", make.index(-9, row=20, col=1), mask=make.op(PointwiseOp.GE, make.position(row=1), 2)
    )
    make.store("out", "row col", ahead + behind)
    plan = planned(make)
    assert [one.axis for one in plan.ints] == ["row", None]
    (offset,) = plan.addresses[
        next(at for at, v in enumerate(plan.body) if isinstance(v, Load) and v.mask)
    ].offset
    assert offset == (-1, ParameterRef("x_offset"))


def test_a_causal_mask_stays() -> None:
    plan = planned(nests.masked_softmax(8, 8))
    assert sum(isinstance(value, IndexExpression) for value in plan.body) == 2
