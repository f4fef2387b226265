"""What the sweep over the operator database calls right, and that faults are none of it."""

from __future__ import annotations

import pytest
import torch

from tests.autograd.op_programs import every_program
from tests.autograd.sample_judge import drawn_error, judge, noise_of_roundings

INF, NAN = float("inf"), float("nan")


def verdict(found, wanted, exact, dtype=torch.bfloat16, error=0.0):
    values = torch.tensor(found, dtype=dtype), torch.tensor(wanted, dtype=dtype)
    exact = torch.tensor(exact, dtype=torch.float64)
    is_short = dtype.itemsize == 2
    return judge("y", *values, exact, is_short=is_short, error_of_eager=lambda: error).is_right


@pytest.mark.parametrize(
    ("found", "wanted", "exact", "is_right"),
    [
        ([-INF, 2.0], [NAN, 2.0], [110.0, 2.0], True),  # a sum of which one term overflowed
        ([INF, 2.0], [-INF, 2.0], [110.0, 2.0], True),
        ([110.0, 2.0], [NAN, 2.0], [110.0, 2.0], True),
        ([90.0, 2.0], [NAN, 2.0], [110.0, 2.0], False),  # finite, and another number
        ([NAN, 2.0], [110.0, 2.0], [110.0, 2.0], False),  # eager does not overflow
        ([-INF, 2.0], [INF, 2.0], [1e39, 2.0], False),  # float64 itself is beyond, and has a sign
        ([NAN, 2.0], [INF, 2.0], [1e39, 2.0], False),
        ([NAN, 2.0], [INF, 2.0], [INF, 2.0], False),
        ([INF, 3.0], [NAN, 2.0], [110.0, 2.0], False),  # the other element
    ],
)
def test_overflow_on_the_way_has_no_sign_of_its_own(found, wanted, exact, is_right):
    assert verdict(found, wanted, exact) is is_right


def test_in_float32_it_has():
    assert not verdict([-INF], [NAN], [110.0], torch.float32)


def test_who_does_not_overflow_is_right_to_a_few_units():
    def of_half(found):
        return verdict([found, 2.0], [INF, 2.0], [-58881.4, 2.0], torch.float16)

    assert of_half(-58944.0)
    assert not of_half(-58400.0)
    assert not of_half(58880.0)


def test_a_power_that_only_16_bits_have_is_eagers():
    assert verdict([0.5, 1.0], [0.5, 1.0], [NAN, 1.0])
    assert not verdict([0.7, 1.0], [0.5, 1.0], [NAN, 1.0])
    assert not verdict([0.7, 1.0], [NAN, 1.0], [NAN, 1.0])


def test_eagers_error_is_the_largest_of_several_draws():
    assert not verdict([15.375], [15.5], [15.5553])
    assert verdict([15.375], [15.5], [15.5553], error=0.12)
    assert not verdict([14.5], [15.5], [15.5553], error=0.12)
    assert not verdict([15.375], [15.5], [15.5553], torch.float32, error=0.12)


def test_what_is_as_near_to_float64_as_eager_is_right_where_eager_is_near_too():
    """A sum that cancels."""
    assert verdict([5.5e-6], [-7.5e-6], [0.0], torch.float32)
    assert not verdict([5.5e-5], [-7.5e-6], [0.0], torch.float32)
    assert not verdict([0.45], [-0.5], [0.0], torch.float32)  # eager is far off: who knows what is right


def test_what_roundings_move_is_near_and_what_is_farther_is_wrong():
    values = (torch.tensor([1.3e-4]), torch.zeros(1), torch.tensor([-1.4e-14], dtype=torch.float64))
    assert not judge("y", *values, is_short=False).is_right
    near = judge("y", *values, is_short=False, moved_by_roundings=lambda: 1e-4)
    assert near.is_right and near.is_near and near.words
    assert not judge("y", *values, is_short=False, moved_by_roundings=lambda: 5e-5).is_right


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_roundings_move_a_result_by_its_last_bits(dtype):
    program = next(one for one in every_program("mul", dtype) if one.tensors[0].numel() > 4)
    largest = max(float(one.detach().abs().max()) for one in program.tensors)
    moved = noise_of_roundings(program, "result 0", train=True)
    assert 0 < moved < 1e-5 * largest * largest


def test_a_drawn_error_is_of_the_order_of_a_unit():
    program = next(one for one in every_program("mul", torch.bfloat16) if one.tensors[0].numel() > 4)
    error = drawn_error(program, "result 0", train=True)
    largest = max(float(one.detach().abs().max()) for one in program.tensors)
    assert 0 < error <= largest * largest * torch.finfo(torch.bfloat16).eps
    assert drawn_error(program, "nothing of that name", train=True) == 0.0


def test_whole_numbers_are_equal_or_not():
    numbers = torch.tensor([1, 2])
    assert not judge("y", numbers, numbers, None, is_short=False).words
    assert not judge("y", numbers, numbers + 1, None, is_short=False).is_right
