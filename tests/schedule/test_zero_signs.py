"""A zero that is added goes where nobody sees the sign of a zero, and stays where somebody does."""

from __future__ import annotations

import pytest
import torch

from longhand.lower.ir import Constant, Index, Load, Pointwise, PointwiseOp, Reduce, ReduceOp, Store, Value
from longhand.schedule.numerics.zero_signs import without_added_zeros
from longhand.schedule.simplification import simplify_body

F = torch.float32
AT = Index(0, (("i", 1),))
X, Y, ZERO = Load("x", AT, F), Load("y", AT, F), Constant(0.0, F)
TOTAL = Pointwise(PointwiseOp.ADD, (0, 2), F)


def of(op: PointwiseOp, *args: int) -> Pointwise:
    return Pointwise(op, args, F)


def simpler(*values: Value) -> tuple[Value, ...]:
    body = (X, Y, ZERO, TOTAL, *values)
    return simplify_body(without_added_zeros((*body, Store("out", AT, len(body) - 1))))


@pytest.mark.parametrize(
    "values",
    [
        (of(PointwiseOp.EXP, 3),),
        (of(PointwiseOp.ADD, 3, 1), of(PointwiseOp.EXP, 4)),
        (of(PointwiseOp.MUL, 3, 1), of(PointwiseOp.SUB, 4, 1), of(PointwiseOp.ABS, 5)),
        (Reduce(ReduceOp.SUM, 3, ("i",), F), of(PointwiseOp.EXP, 4)),
        (Reduce(ReduceOp.MAX, 3, ("i",), F), of(PointwiseOp.SUB, 3, 4), of(PointwiseOp.EXP, 5)),
    ],
)
def test_an_added_zero_that_nobody_sees_is_gone(values: tuple[Value, ...]) -> None:
    assert ZERO not in simpler(*values)


@pytest.mark.parametrize(
    "values",
    [
        (),  # it is stored
        (of(PointwiseOp.DIV, 1, 3),),  # minus infinity
        (of(PointwiseOp.MUL, 3, 1),),
        (of(PointwiseOp.ADD, 3, 1),),  # of two negative zeros
        (Reduce(ReduceOp.SUM, 3, ("i",), F),),
        (of(PointwiseOp.COPYSIGN, 1, 3),),
        (of(PointwiseOp.ADD, 3, 1), of(PointwiseOp.RSQRT, 4)),
        (of(PointwiseOp.EXP, 3), of(PointwiseOp.MUL, 3, 4)),
    ],
)
def test_an_added_zero_that_somebody_sees_stays(values: tuple[Value, ...]) -> None:
    assert ZERO in simpler(*values)
