"""A condition is called after what it asks, in kernels and in their references."""

from __future__ import annotations

import re

import pytest
import torch

from benchmarks.readability.units import text_of
from longhand.capture.graph import Role
from longhand.lower.ir import Constant, Load, Pointwise, PointwiseOp, Scalar, Value
from longhand.lower.ir import Index as IndexOf
from longhand.schedule.names.meanings.conditions import words_of_condition

F32 = torch.float32
X, EPS = Load("x", IndexOf(()), F32), Load("eps", IndexOf(()), F32)


def word(op: PointwiseOp, *sides: Value, words: tuple[str | None, ...] = ("x_i", "eps")) -> str | None:
    """The best word for a comparison of values with these words."""
    condition = Pointwise(op, tuple(range(len(sides))), torch.bool)
    return next(words_of_condition(condition, (*sides, condition), lambda at: words[at]), None)


@pytest.mark.parametrize(
    ("op", "number", "expected"),
    [
        (PointwiseOp.GT, 0.0, "x_is_positive"),
        (PointwiseOp.LT, 0.0, "x_is_negative"),
        (PointwiseOp.EQ, 0.0, "x_is_zero"),
        (PointwiseOp.GT, 20.0, "x_above_threshold"),
    ],
)
def test_a_number_says_what_is_asked(op: PointwiseOp, number: float, expected: str) -> None:
    assert word(op, X, Constant(number, F32)) == expected


def test_sides_may_stand_the_other_way_round() -> None:
    """``0 < x`` asks whether x is positive."""
    assert word(PointwiseOp.LT, Constant(0.0, F32), X, words=(None, "x")) == "x_is_positive"


def test_two_values_are_both_said() -> None:
    assert word(PointwiseOp.GT, X, EPS) == "x_above_eps"
    assert word(PointwiseOp.GT, X, X, words=("x", "x")) is None


def test_a_place_lies_before_or_past_what_begins_and_ends() -> None:
    start, end = (Scalar(4, torch.int64, role) for role in (Role.FILLED_START, Role.FILLED_END))
    assert word(PointwiseOp.LT, X, start) == "before_filled"
    assert word(PointwiseOp.GE, X, start) == "from_filled_start"
    assert word(PointwiseOp.LT, X, end) == "before_filled_end"
    assert word(PointwiseOp.GE, X, end) == "past_filled"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("is_padding", "is_not_padding"),
        ("x_is_zero", "x_is_not_zero"),
        ("before_filled", "past_filled"),
        ("in_first", "not_in_first"),
    ],
)
def test_the_opposite_says_of_what(given: str, expected: str) -> None:
    assert word(PointwiseOp.LOGICAL_NOT, X, words=(given,)) == expected


def test_of_two_conditions_both_are_said() -> None:
    assert word(PointwiseOp.LOGICAL_AND, X, EPS, words=("in_first", "is_kept")) == "in_first_and_is_kept"
    assert word(PointwiseOp.LOGICAL_AND, X, EPS, words=("in_first", None)) is None


def xielu(up: torch.Tensor, alpha: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    """As Apertus has it, whose condition was ``is_greater``."""
    return torch.where(up > 0, alpha * up * up + beta * up, torch.expm1(up) * alpha - up * beta) * (up > 0)


def test_no_kernel_asks_what_is_less() -> None:
    text = text_of((xielu, (torch.randn(4, 8), torch.randn(8), torch.randn(8)), {}), "cpu", train=False)
    kernels = "\n".join(lines for path, lines in text.items() if path.startswith("kernels/"))
    assert re.search(r"\bup(_i)?_is_positive\b", kernels)
    assert not re.search(r"\b(is_greater|is_less|is_not)\b", kernels)
