"""The bound on errors: twice eager's, or one unit in the last place, and NaN where NaN belongs."""

import math

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
