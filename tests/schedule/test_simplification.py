"""Bodies get shorter and mean the same, to the last bit."""

from __future__ import annotations

import math

import pytest
import torch

from longhand.lower.ir import (
    Axis,
    AxisSize,
    Constant,
    Index,
    IndexExpression,
    Load,
    Nest,
    Pointwise,
    Reduce,
    ReduceOp,
    Scalar,
    Store,
    Value,
)
from longhand.lower.ir import PointwiseOp as Op
from longhand.schedule.simplification import simplify_body, simplify_nest

f32, f64, i32, i64 = torch.float32, torch.float64, torch.int32, torch.int64
HERE = Index(0, (("i", 1),))


def with_constant(op: Op, number: float | int, dtype: torch.dtype = f32) -> tuple[Value, ...]:
    return (
        Load("x", HERE, dtype),
        Constant(number, dtype),
        Pointwise(op, (0, 1), dtype),
        Store("y", HERE, 2),
    )


PLAIN = (Load("x", HERE, f32), Store("y", HERE, 0))


@pytest.mark.parametrize(
    ("op", "number"), [(Op.MUL, 1.0), (Op.DIV, 1.0), (Op.ADD, -0.0), (Op.SUB, 0.0)], ids=str
)
def test_neutral_numbers_go(op: Op, number: float) -> None:
    assert simplify_body(with_constant(op, number)) == PLAIN


@pytest.mark.parametrize(("op", "number"), [(Op.ADD, 0.0), (Op.SUB, -0.0), (Op.MUL, 0.0)], ids=str)
def test_numbers_that_change_signs_or_nans_stay(op: Op, number: float) -> None:
    body = simplify_body(with_constant(op, number))
    assert len(body) == 4
    (constant,) = [value for value in body if isinstance(value, Constant)]
    assert math.copysign(1.0, constant.value) == math.copysign(1.0, number)


def choice(inside: bool | float, outside: bool | float, dtype: torch.dtype) -> tuple[Value, ...]:
    return (
        Load("x", HERE, torch.bool),
        Constant(inside, dtype),
        Constant(outside, dtype),
        Pointwise(Op.WHERE, (0, 1, 2), dtype),
        Store("y", HERE, 3),
    )


def test_a_choice_of_true_and_false_is_its_condition() -> None:
    kept = simplify_body(choice(True, False, torch.bool))
    turned = simplify_body(choice(False, True, torch.bool))
    assert kept == (Load("x", HERE, torch.bool), Store("y", HERE, 0))
    assert turned[1:] == (Pointwise(Op.LOGICAL_NOT, (0,), torch.bool), Store("y", HERE, 1))
    assert len(simplify_body(choice(1.0, 0.0, f32))) == 5  # of numbers it is none


def test_both_zeros_and_false_are_three_constants() -> None:
    body: tuple[Value, ...] = (
        Load("x", HERE, f32),
        Constant(0.0, f32),
        Constant(-0.0, f32),
        Pointwise(Op.ADD, (0, 1), f32),
        Pointwise(Op.MUL, (3, 2), f32),
        Store("y", HERE, 4),
    )
    zeros = [value.value for value in simplify_body(body) if isinstance(value, Constant)]
    assert [math.copysign(1.0, zero) for zero in zeros] == [1.0, -1.0]


def test_equal_values_are_computed_once_and_dead_ones_never() -> None:
    body: tuple[Value, ...] = (
        Load("x", HERE, f32, name="x"),
        Pointwise(Op.EXP, (0,), f32, origin="a"),
        Load("x", HERE, f32),
        Pointwise(Op.EXP, (2,), f32, origin="b", name="e"),
        Pointwise(Op.TANH, (2,), f32),
        Pointwise(Op.MUL, (1, 3), f32),
        Store("y", HERE, 5),
    )
    cleaned = simplify_body(body)
    assert [type(value).__name__ for value in cleaned] == ["Load", "Pointwise", "Pointwise", "Store"]
    assert cleaned[1].name == "e"


@pytest.mark.parametrize(
    ("start", "over", "goes"), [(f32, f64, True), (i32, i64, True), (i64, f32, False), (f64, f32, False)]
)
def test_a_cast_there_and_back_goes_where_it_loses_nothing(
    start: torch.dtype, over: torch.dtype, goes: bool
) -> None:
    body: tuple[Value, ...] = (
        Load("x", HERE, start),
        Pointwise(Op.CAST, (0,), over),
        Pointwise(Op.CAST, (1,), start),
        Store("y", HERE, 2),
    )
    assert (len(simplify_body(body)) == 2) is goes


def test_a_narrowing_cast_stays() -> None:
    body = (Load("x", HERE, i32), Pointwise(Op.CAST, (0,), i32, torch.int8), Store("y", HERE, 1))
    assert simplify_body(body) == body


def test_loads_stand_before_stores_into_the_same_buffer() -> None:
    body: tuple[Value, ...] = (
        Load("x", HERE, f32),
        Pointwise(Op.NEG, (0,), f32),
        Load("z", HERE, f32),
        Store("x", HERE, 1),
        Store("y", HERE, 2),
    )
    assert [type(value).__name__ for value in simplify_body(body)][-2:] == ["Store", "Store"]


def test_axes_that_nothing_walks_go_and_leave_their_number() -> None:
    axes = (Axis("i", 4), Axis("k", 3))
    body: tuple[Value, ...] = (
        Load("x", HERE, f32),
        AxisSize(("k",), f32),
        Pointwise(Op.MUL, (0, 1), f32),
        Store("y", HERE, 2),
    )
    cleaned = simplify_nest(Nest(axes, body))
    assert cleaned.axes == axes[:1]
    assert [value.value for value in cleaned.body if isinstance(value, Scalar)] == [3]
    reducing = (Load("x", HERE, f32), Reduce(ReduceOp.SUM, 0, ("k",), f32), Store("y", HERE, 1))
    cleaned = simplify_nest(Nest(axes, reducing))
    assert cleaned.axes == axes[:1]
    assert [value.value for value in cleaned.body if isinstance(value, Scalar)] == [3]
    varying = (
        Load("x", Index(0, (("i", 3), ("k", 1))), f32),
        Reduce(ReduceOp.SUM, 0, ("k",), f32),
        Store("y", HERE, 1),
    )
    assert simplify_nest(Nest(axes, varying)).axes == axes


def test_a_reduction_goes_along_no_axis_that_its_argument_does_not_vary_over():
    """Fusion finds that what a softmax reads is one number: nothing is left to reduce, or only a product."""
    rows = Index(0, (("i", 1),))
    body = (
        Load("x", rows, f64),
        Reduce(ReduceOp.MAX, 0, ("j",), f64),
        Reduce(ReduceOp.SUM, 0, ("i", "j"), f64),
        Store("largest", rows, 1),
        Store("total", Index(), 2),
    )
    nest = simplify_nest(Nest((Axis("i", 3), Axis("j", 5)), body))
    assert [axis.name for axis in nest.axes] == ["i"]
    (total,) = (value for value in nest.body if isinstance(value, Reduce))
    assert total.op is ReduceOp.SUM and total.axes == ("i",)
    assert Scalar(5, f64) in nest.body
    stores = {value.buffer: nest.body[value.value] for value in nest.body if isinstance(value, Store)}
    assert isinstance(stores["largest"], Load)
    assert isinstance(stores["total"], Pointwise) and stores["total"].op is Op.MUL


def test_a_gather_at_numbers_reads_there():
    body = (
        IndexExpression(Index(-1)),
        Pointwise(Op.ABS, (0,), i64),
        Load("x", Index(2, values=((1, 4),)), f32),
        Store("y", HERE, 2),
    )
    loads = [value for value in simplify_body(body) if not isinstance(value, Store)]
    assert loads == [Load("x", Index(6), f32)]


def test_a_softmax_over_one_element_is_divided_by_nothing() -> None:
    """``exp(x - x)`` over itself is itself: 1, or NaN where x is infinite or NaN."""
    body = (
        Load("x", HERE, f32),
        Pointwise(Op.SUB, (0, 0), f32),
        Pointwise(Op.EXP, (1,), f32),
        Pointwise(Op.DIV, (2, 2), f32),
        Store("y", HERE, 3),
    )
    assert simplify_body(body) == (*body[:3], Store("y", HERE, 2))
    other = (*body[:1], Pointwise(Op.EXP, (0,), f32), Pointwise(Op.DIV, (1, 1), f32), Store("y", HERE, 2))
    assert simplify_body(other) == other, "infinity over itself is NaN"
