"""Numbers that a statement writes out have a name made of what it writes."""

from __future__ import annotations

import math

import pytest

from longhand.schedule.names.number_names import _named_numbers


@pytest.mark.parametrize(
    ("written", "value", "name"),
    [
        ("math.sqrt(2.0 / math.pi)", math.sqrt(2.0 / math.pi), "SQRT_2_OVER_PI"),
        ("2 * math.pi", 2 * math.pi, "TWO_PI"),
        ("np.sqrt(2)", math.sqrt(2), "SQRT_2"),
        ("1 / math.sqrt(2.0)", 1 / math.sqrt(2.0), "ONE_OVER_SQRT_2"),
        ("math.log(2)", math.log(2), "LOG_2"),
    ],
)
def test_a_number_that_is_written_out(written: str, value: float, name: str) -> None:
    assert _named_numbers("", f"y = x * ({written}) + 1")[value] == name


def test_its_reciprocal_is_what_is_multiplied_by() -> None:
    assert _named_numbers("", "y = x / math.sqrt(2.0)")[1 / math.sqrt(2.0)] == "ONE_OVER_SQRT_2"


@pytest.mark.parametrize(
    "statement", ["y = x * 2.0 / 3", "y = math.sqrt(x)", "y = x * 0.044715", "y = f(2)(3)"]
)
def test_a_plain_number_or_a_value_has_none(statement: str) -> None:
    assert _named_numbers("", statement) == {}
