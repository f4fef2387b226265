"""Zeros stay zeros where they are multiplied with what is known to be a positive number, and nowhere else."""

from __future__ import annotations

import pytest
import sympy
import torch

from longhand.lower.ir import AxisSize, Constant, Index, Load, Pointwise, PointwiseOp, Scalar, Store, Value
from longhand.schedule.numerics.positive_factors import without_multiplied_zeros
from longhand.schedule.simplification import simplify_body

Op = PointwiseOp
F = torch.float32
AT = Index(0, (("i", 1),))
LENGTH = sympy.Symbol("s0", integer=True, positive=True)
SIZES = {"i": 8, "of_symbol": LENGTH, "empty": 0}
EPS = Scalar(1e-5, F, "eps")


def simpler(*values: Value) -> tuple[Value, ...]:
    """What is stored is the last value; the store goes."""
    body = (*values, Store("out", AT, len(values) - 1))
    return simplify_body(without_multiplied_zeros(simplify_body(body), SIZES))[:-1]


def of(op: PointwiseOp, *args: int, dtype: torch.dtype = F) -> Pointwise:
    return Pointwise(op, args, dtype)


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize(
    "number", [AxisSize(("i",), F), AxisSize(("of_symbol", "i"), F), Scalar(LENGTH, F), Scalar(3, F), EPS]
)
def test_a_zero_times_or_over_a_number_is_the_zero(zero: float, number: Value) -> None:
    for values in (
        (of(Op.MUL, 0, 1),),
        (of(Op.MUL, 1, 0),),
        (of(Op.DIV, 0, 1),),
        (of(Op.MUL, 0, 1), of(Op.DIV, 2, 1)),
    ):
        (found,) = simpler(Constant(zero, F), number, *values)
        assert isinstance(found, Constant) and str(found.value) == str(zero)


def test_zeros_that_are_normalized_are_zeros() -> None:
    """(0 - mean) * rsqrt(variance + eps)."""
    norm = (of(Op.SUB, 0, 0), of(Op.ADD, 0, 1), of(Op.RSQRT, 3), of(Op.MUL, 2, 4))
    assert simpler(Constant(0.0, F), EPS, *norm) == (Constant(0.0, F),)


@pytest.mark.parametrize(
    "number",
    [
        Load("x", AT, F),  # may be infinite
        AxisSize(("empty",), F),
        Scalar(0, F),
        Scalar(-1.0, F),
        Scalar(1e-50, F),  # zero in float32
        Scalar(float("inf"), F),
        Scalar(sympy.Symbol("s1", integer=True), F),
        Scalar(1 / LENGTH, F),
    ],
)
def test_what_may_be_no_positive_number_stays(number: Value) -> None:
    for op, args in ((Op.MUL, (0, 1)), (Op.DIV, (0, 1))):
        assert len(simpler(Constant(0.0, F), number, of(op, *args))) == 3


def test_a_size_may_be_infinite_in_few_bits() -> None:
    half = torch.float16
    values = Constant(0.0, half), Scalar(2**17, half), of(Op.MUL, 0, 1, dtype=half)
    assert len(simpler(*values)) == 3


def test_a_number_over_zero_stays() -> None:
    assert len(simpler(Constant(0.0, F), EPS, of(Op.DIV, 1, 0))) == 3
