"""A zero that is added goes where nobody sees the sign of a zero, and stays where somebody does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import longhand
from longhand.lower.ir import Constant, Index, Load, Pointwise, PointwiseOp, Reduce, ReduceOp, Store, Value
from longhand.schedule.numerics.zero_signs import told_signs, without_added_zeros
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


NEGATED = of(PointwiseOp.NEG, 0)


@pytest.mark.parametrize(
    "values, is_told",
    [
        ((of(PointwiseOp.ATAN2, 0, 1),), True),
        ((of(PointwiseOp.MUL, 0, 1), of(PointwiseOp.DIV, 1, 3)), True),
        ((of(PointwiseOp.DIV, 0, 1),), False),  # a quotient's sign, which nobody asks for
        ((of(PointwiseOp.EXP, 0), of(PointwiseOp.RECIPROCAL, 3)), False),
        ((Constant(1.0, F), of(PointwiseOp.ADD, 0, 3), of(PointwiseOp.RECIPROCAL, 4)), False),
        ((of(PointwiseOp.COPYSIGN, 0, 1),), False),
        ((of(PointwiseOp.COPYSIGN, 1, 0),), True),
    ],
)
def test_whose_zero_has_a_sign_that_is_told(values: tuple[Value, ...], is_told: bool) -> None:
    body = (X, Y, NEGATED, *values)
    assert (0 in told_signs((*body, Store("out", AT, len(body) - 1)))) is is_told


def test_what_is_negated_below_an_angle_keeps_the_sign_of_a_zero(tmp_path: Path) -> None:
    """Before Triton 3.8, ``-x`` is ``0.0 - x`` and -0.0 is 0.0: neither is written where it is told."""
    longhand.generate(_angle, (torch.randn(7),), out=tmp_path / "unit", device="cuda", arch="sm_90")
    kernel = "".join(path.read_text() for path in (tmp_path / "unit" / "kernels").glob("*.py"))
    assert "negated = -1.0 * x" in kernel
    assert "-1.0 * tl.full((), 0.0, tl.float32)" in kernel


def _angle(x: torch.Tensor) -> torch.Tensor:
    negated = -x
    return torch.atan2(torch.where(x > 1, -0.0, negated), negated)
