"""The bound on errors: twice eager's, or one unit in the last place, and NaN where NaN belongs."""

import math
from fractions import Fraction

import pytest
import torch

from longhand.verify.comparison import compare, distance


def reference():
    torch.manual_seed(1)
    return torch.randn(64, 64, dtype=torch.float64)


def test_eagers_own_result_passes():
    exact = reference()
    eager = exact.float()
    assert compare("result", eager.clone(), eager, exact).is_right


def test_an_error_of_one_part_in_a_thousand_does_not():
    exact = reference()
    eager = exact.float()
    assert not compare("result", eager * 1.001, eager, exact).is_right


def test_one_wrong_element_is_found():
    exact = reference()
    wrong = exact.float()
    wrong[3, 5] += 1e-3
    found = compare("result", wrong, exact.float(), exact)
    assert not found.is_right and math.isclose(found.error, 1e-3, rel_tol=1e-3)


def test_twice_eagers_error_is_the_bound():
    exact = reference()
    eager = exact + 1e-2
    assert compare("result", (exact - 1.9e-2).float(), eager.float(), exact).is_right
    assert not compare("result", (exact - 2.1e-2).float(), eager.float(), exact).is_right


def test_nan_and_infinity_must_stand_in_the_same_places():
    exact = torch.tensor([1.0, math.nan, math.inf, -math.inf], dtype=torch.float64)
    assert distance(exact.float(), exact) == 0.0
    assert distance(exact.float().flip(0), exact) == math.inf
    assert not compare("result", torch.zeros(4), exact.float(), exact).is_right


def test_shape_and_dtype_are_part_of_the_result():
    exact = reference()
    assert "expected torch.float32" in compare("result", exact.half(), exact.float(), exact).note
    assert not compare("result", exact.float()[:1], exact.float(), exact).is_right


def test_integers_must_be_equal():
    eager = torch.arange(10)
    assert compare("result", eager.clone(), eager, eager).is_right
    assert not compare("result", eager.roll(1), eager, eager).is_right


def test_complex_numbers_are_two_floats():
    torch.manual_seed(1)
    exact = torch.randn(8, 8, dtype=torch.complex128)
    eager = exact.to(torch.complex64)
    last_bit = torch.view_as_complex(torch.view_as_real(eager) * (1 + 2**-23))
    assert compare("result", last_bit, eager, exact).is_right
    assert compare("result", last_bit.conj(), eager.conj().resolve_conj(), exact.conj()).is_right
    assert not compare("result", eager * 1.001, eager, exact).is_right
    assert not compare("result", eager.conj(), eager, exact).is_right
    assert distance(exact + 3j, exact) == pytest.approx(3) and distance(exact.conj(), exact.conj()) == 0


def test_where_eager_leaves_the_range_we_may_be_right():
    exact = torch.tensor([1.0, 1628.0, 1e6], dtype=torch.float64)
    eager = torch.tensor([1.0, math.inf, math.inf]).half()
    assert compare("result", eager.clone(), eager, exact).is_right
    assert compare("result", torch.tensor([1.0, 1628.0, math.inf]).half(), eager, exact).is_right
    for wrong in (
        [1.0, 1700.0, math.inf],
        [1.0, 1628.0, 60000.0],
        [5.0, math.inf, math.inf],
        [1.0, -math.inf, 1e6],
    ):
        assert not compare("result", torch.tensor(wrong).half(), eager, exact).is_right


def test_in_float64_what_is_exact_passes_and_what_was_computed_in_float32_does_not():
    """Seed 61208 of the random programs: eager's own float64 is 23 units off."""
    generator = torch.Generator().manual_seed(61208)
    x = torch.randn(18000, dtype=torch.float64, generator=generator) * 1e3
    numbers = [Fraction(value) for value in x.tolist()]
    mean = sum(numbers) / len(numbers)
    exact = torch.tensor(float(sum((one - mean) ** 2 for one in numbers) / len(numbers)), dtype=torch.float64)
    eager = torch.var(x, correction=0)
    off = 20 * torch.finfo(torch.float64).eps
    for one in (exact, exact * (1 + off), exact * (1 - off)):
        assert compare("result", one, eager, eager).is_right
    assert not compare("result", x.float().var(correction=0).double(), eager, eager).is_right
    assert not compare("result", exact.double() * (1 + 1e-13), eager, eager).is_right


def test_what_the_type_cannot_hold_is_nothing():
    """Seed 302955 of the random programs: eager divides zero by zero, float64 gives what float16 has no number for."""
    exact = torch.tensor([1.4e-12, -8.9e-11], dtype=torch.float64)
    eager = torch.full((2,), math.nan).half()
    assert compare("result", torch.zeros(2).half(), eager, exact).is_right
    assert compare("result", torch.zeros(2).half(), torch.zeros(2).half(), exact).is_right
    assert not compare("result", torch.full((2,), 1e-6).half(), eager, exact).is_right


def test_beyond_the_dtype_infinity_is_right_where_float64_is():
    """Eager in 16 bits: infinity minus infinity on its way."""
    exact = torch.tensor([1.0, -4454448.0, 131000.0], dtype=torch.float64)
    eager = torch.tensor([1.0, math.nan, math.inf], dtype=torch.float16)
    assert compare("result", exact.to(torch.float16), eager, exact).is_right
    assert not compare("result", -exact.to(torch.float16), eager, exact).is_right
    assert not compare("result", torch.tensor([math.inf] * 3).half(), eager, exact).is_right
